"""Fewer requests in flight from this picker is better, relative to the busiest.

Up to `idleThreshold` requests an endpoint counts as idle and scores 1; a busy one scores at most `maxBusyScore`. With
`minScaleRequests` the busiest counts as having at least so many: a few requests more are then no reason to leave a
cached prefix. With `maxScaleRequests` so many more than another are always the full difference, however busy all are.
"""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import ActiveRequestParameters
from modelplane.framework.registry import plugin_type


class ActiveRequestScorer:
    __slots__ = ("_idle", "_max_scale", "_min_scale", "_most", "name")

    def __init__(self, name: str, parameters: ActiveRequestParameters) -> None:
        self.name = name
        self._idle = parameters.idle_threshold
        self._most = parameters.max_busy_score
        self._min_scale = parameters.min_scale_requests
        self._max_scale = parameters.max_scale_requests

    def read(self, endpoint: Endpoint, /) -> float:
        return endpoint.requests_in_flight

    def relative_score(self, count: float, _least: float, busiest: float, /) -> float:
        if count <= self._idle:
            return 1.0
        top = max(busiest, self._min_scale)
        scale = min(top, self._max_scale) if self._max_scale else top
        return min(1.0, (top - count) / scale) * self._most

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        counts = [endpoint.requests_in_flight for endpoint in endpoints]
        busiest = max(counts)
        return [self.relative_score(count, 0, busiest) for count in counts]


TYPES = (
    plugin_type("active-request-scorer", ActiveRequestScorer, ActiveRequestParameters, consumes=("in-flight load",)),
)
