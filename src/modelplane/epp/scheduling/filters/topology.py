"""Endpoints near the one that was picked before, such as the decode endpoint for prefill.

All are kept if there is no such endpoint, or none is near enough.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.topology import PEER, TopologyLevel, shared
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type


class TopologyAffinity(StrEnum):
    HOST = "host"
    RACK = "rack"
    ZONE = "zone"
    REGION = "region"


_LEVELS: Mapping[TopologyAffinity, TopologyLevel] = {
    TopologyAffinity.HOST: TopologyLevel.HOST,
    TopologyAffinity.RACK: TopologyLevel.RACK,
    TopologyAffinity.ZONE: TopologyLevel.ZONE,
    TopologyAffinity.REGION: TopologyLevel.REGION,
}


class TopologyFilterParameters(Parameters, frozen=True):
    min_affinity: TopologyAffinity = TopologyAffinity.HOST
    topology_producer_name: str = ""


class TopologyFilter:
    __slots__ = ("_affinity", "name")

    def __init__(self, name: str, parameters: TopologyFilterParameters) -> None:
        self.name = name
        self._affinity = parameters.min_affinity

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        peer = context.get(PEER)
        if peer is None:
            return ()
        least = _LEVELS[self._affinity]
        near = [shared(peer, endpoint) >= least for endpoint in endpoints]
        if not any(near):
            return ()
        far = Refusal(
            self.name, RefusalCode.UNSCHEDULABLE, "is not in the same {} as {}", (str(self._affinity), peer.name)
        )
        return [None if close else far for close in near]


TYPES = (plugin_type("topology-affinity-filter", TopologyFilter, TopologyFilterParameters),)
