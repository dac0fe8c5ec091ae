"""Nearer to the endpoint that was picked before is better, by what lies between: NVLink, a switch, or more."""

from collections.abc import Mapping, Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.remembered import Constant
from modelplane.epp.scheduling.slots import PEER
from modelplane.epp.scheduling.topology import TopologyLevel, shared
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
    __slots__ = ("_none", "name")

    def __init__(self, name: str, _parameters: TopologyScorerParameters) -> None:
        self.name = name
        self._none = Constant(0.0)

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        peer = context.get(PEER)
        if peer is None:
            return self._none.of(len(endpoints))
        return [_SCORES[shared(peer, endpoint)] for endpoint in endpoints]


TYPES = (plugin_type("topology-affinity-scorer", TopologyScorer, TopologyScorerParameters),)
