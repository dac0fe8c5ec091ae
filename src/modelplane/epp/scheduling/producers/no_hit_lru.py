"""Requests whose prompt no endpoint has cached go to the endpoint that got such a request least recently.

New prompts start caches; taking turns keeps one endpoint from collecting all of them. Where an endpoint has a prefix of
the prompt cached, all endpoints score 0.5.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import NoHitLruParameters
from modelplane.epp.scheduling.producers.approx_producer import computing
from modelplane.epp.scheduling.producers.prefix import any_held, prefix_of
from modelplane.framework.registry import plugin_type

NEUTRAL = 0.5


class NoHitLruScorer:
    def __init__(self, name: str, parameters: NoHitLruParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or NoHitLruParameters()
        self._producer = self._parameters.prefix_match_info_producer_name or self._parameters.prefix_plugin_name
        self._recent: OrderedDict[Endpoint, None] = OrderedDict()

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        """1 for the endpoint that waits longest for a cold request, down to 0; never used ones come first, by name."""
        if not is_cold(context, self._producer):
            return [NEUTRAL] * len(endpoints)
        age = {endpoint: place for place, endpoint in enumerate(self._recent, start=1)}
        return in_turn(endpoints, [(age.get(endpoint, 0), endpoint.name) for endpoint in endpoints])

    def capture(self, context: SchedulingContext) -> object:
        """Endpoints, least recently used first; only cold requests use them."""
        kept = set(context.endpoints)
        return (
            [endpoint.name for endpoint in self._recent if endpoint in kept]
            if is_cold(context, self._producer)
            else None
        )

    def restore(self, context: SchedulingContext, captured: object) -> None:
        by_name = {endpoint.name: endpoint for endpoint in context.endpoints}
        self._recent = OrderedDict((by_name[name], None) for name in msgspec.convert(captured, list[str]))

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        if is_cold(context, self._producer):
            for endpoint in computing(decision):
                self._recent[endpoint] = None
                self._recent.move_to_end(endpoint)
            while len(self._recent) > self._parameters.lru_size:
                self._recent.popitem(last=False)
        return ()

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        kept = set(endpoints)
        for endpoint in [endpoint for endpoint in self._recent if endpoint not in kept]:
            del self._recent[endpoint]


def is_cold(context: SchedulingContext, producer: str) -> bool:
    """Whether no endpoint has anything of the prompt cached, by the producer of this name; without one, by any."""
    match = prefix_of(context, producer)
    return match is None or not any_held(match)


def in_turn(endpoints: Sequence[Endpoint], keys: Sequence[tuple[float, str]]) -> Sequence[float]:
    """1 for the least key, in equal steps down to 0."""
    scores = [0.0] * len(endpoints)
    for place, at in enumerate(sorted(range(len(endpoints)), key=keys.__getitem__)):
        scores[at] = 1.0 - place / max(1, len(endpoints) - 1)
    return scores


TYPES = (plugin_type("no-hit-lru-scorer", NoHitLruScorer, NoHitLruParameters, consumes=("prefix",)),)
