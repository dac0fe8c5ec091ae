"""Scorers of the ecosystem without an implementation here: they score 0 for all endpoints, with a warning."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.declared import INERT
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import zeros
from modelplane.framework.registry import Parameters, plugin_type


class MultimodalParameters(Parameters, frozen=True):
    producer_name: str = ""


class InertScorer:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: MultimodalParameters) -> None:
        self.name = name

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        return zeros(len(endpoints))


TYPES = (plugin_type("mm-embeddings-cache-scorer", InertScorer, MultimodalParameters).serving_as(INERT),)
