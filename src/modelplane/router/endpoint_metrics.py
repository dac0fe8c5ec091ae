"""What clients got from each endpoint, as counters and histograms for Prometheus.

Every attempt counts at the endpoint that it was sent to, a retried one too. A request that its client abandoned says
nothing of the endpoint and counts for nothing. Counters begin at 0 when an endpoint is first in a plan: a counter that
appears with its first failure would hide that failure from whoever reads differences.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import Final

_PREFIX: Final = "modelplane_router_endpoint"
BUCKETS_S: Final[tuple[float, ...]] = (
    *(0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0),
    *(7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0),
)
"""Dense: a 95th percentile is read from them, and limits are compared with it.

Of any length by its type: a tuple of so many floats would be made anew by compiled code at each use.
"""


class EndpointHistogram:
    """Seconds, counted by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, label: str) -> Iterator[str]:
        below = 0
        for bound, count in zip((*map("{:g}".format, BUCKETS_S), "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{{label},le="{bound}"}} {below}'
        yield f"{name}_sum{{{label}}} {self.total:.6g}"
        yield f"{name}_count{{{label}}} {below}"


class _Counted:
    __slots__ = ("duration", "errors", "requests", "ttft")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.ttft = EndpointHistogram()
        self.duration = EndpointHistogram()


class RouterEndpointMetrics:
    """By the namespace and name of a ModelEndpoint."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}

    def succeeded(self, endpoint: str, first_byte_s: float, duration_s: float) -> None:
        found = self._of(endpoint)
        found.requests += 1
        found.ttft.observe(max(0.0, first_byte_s))
        found.duration.observe(max(0.0, duration_s))

    def failed(self, endpoint: str) -> None:
        found = self._of(endpoint)
        found.requests += 1
        found.errors += 1

    def lines(self, known: Collection[str]) -> Iterator[str]:
        """In Prometheus' text format, of the endpoints that are in a plan. Others are forgotten."""
        self._counted = {key: self._of(key) for key in sorted(known)}
        for metric in ("requests", "errors"):
            yield f"# TYPE {_PREFIX}_{metric}_total counter"
            for key, found in self._counted.items():
                yield f'{_PREFIX}_{metric}_total{{endpoint="{key}"}} {getattr(found, metric)}'
        for metric in ("ttft", "duration"):
            yield f"# TYPE {_PREFIX}_{metric}_seconds histogram"
            for key, found in self._counted.items():
                yield from getattr(found, metric).lines(f"{_PREFIX}_{metric}_seconds", f'endpoint="{key}"')

    def _of(self, endpoint: str) -> _Counted:
        found = self._counted.get(endpoint)
        if found is None:
            found = self._counted[endpoint] = _Counted()
        return found
