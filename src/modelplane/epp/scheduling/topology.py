"""How near two endpoints are: by labels that discovery copies from their nodes."""

from enum import IntEnum

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import StateKey

HOST = "kubernetes.io/hostname"
RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
PEER: StateKey[Endpoint] = StateKey("peer")
"""The endpoint picked so far, which the next one will exchange KV blocks with."""


class TopologyLevel(IntEnum):
    """The nearest place that two endpoints share."""

    NONE = 0
    REGION = 1
    ZONE = 2
    RACK = 3
    HOST = 4


_LABELS = (
    (TopologyLevel.HOST, HOST),
    (TopologyLevel.RACK, RACK),
    (TopologyLevel.ZONE, ZONE),
    (TopologyLevel.REGION, REGION),
)


def shared(one: Endpoint, other: Endpoint) -> TopologyLevel:
    for level, label in _LABELS:
        place = one.labels.get(label)
        if place and place == other.labels.get(label):
            return level
    return TopologyLevel.NONE
