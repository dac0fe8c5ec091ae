"""Stays with servers that run the adapter; else prefers those with room for it.

Running scores 1, capacity for one more 0.8, waiting to run 0.6, otherwise 0. The model itself counts as an adapter of
its own name, so requests for a base model score like those for an adapter that is not loaded.
"""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters
from modelplane.framework.registry import NoParameters, plugin_type

RUNNING, ROOM, WAITING, NEITHER = 1.0, 0.8, 0.6, 0.0


class LoraAffinityScorer:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        model = context.request.model
        return [_score(metrics.adapters, model) for metrics in context.metrics(endpoints)]


def _score(adapters: Adapters, model: str) -> float:
    if model in adapters.running:
        return RUNNING
    if len(adapters.running) + len(adapters.waiting) < adapters.most:
        return ROOM
    return WAITING if model in adapters.waiting else NEITHER


TYPES = (plugin_type("lora-affinity-scorer", LoraAffinityScorer, NoParameters),)
