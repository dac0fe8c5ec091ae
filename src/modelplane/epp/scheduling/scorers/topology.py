"""Nearer to the endpoint that was picked before is better, by what lies between: NVLink, a switch, or more."""

from collections.abc import Mapping, Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.topology import PEER, TopologyLevel, shared
from modelplane.framework import zeros
from modelplane.framework.registry import Parameters, plugin_type

_SCORES: Mapping[TopologyLevel, float] = {
    TopologyLevel.HOST: 1.0,
    TopologyLevel.RACK: 0.2,
    TopologyLevel.ZONE: 0.05,
    TopologyLevel.REGION: 0.02,
    TopologyLevel.NONE: 0.0,
}


class TopologyScorerParameters(Parameters, frozen=True):
    topology_producer_name: str = ""


class TopologyScorer:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: TopologyScorerParameters) -> None:
        self.name = name

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        peer = context.get(PEER)
        if peer is None:
            return zeros(len(endpoints))
        return [_SCORES[shared(peer, endpoint)] for endpoint in endpoints]


TYPES = (plugin_type("topology-affinity-scorer", TopologyScorer, TopologyScorerParameters),)
