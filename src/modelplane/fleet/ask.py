"""What a deployment asks of the fleet, in the one form that every way of writing a deployment lowers to.

A replica is a tuple of engines; an engine runs `copies` times; a copy is made of members; a member is `nodes` pods, one
a node. All engines of a replica land on one cluster, all members of an engine on one pool.
"""

from dataclasses import dataclass, field

from modelplane.api.meta import Key
from modelplane.api.models import LabelSelector


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """`count` distinct devices of one node, each of which meets every selector."""

    name: str
    count: int
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberAsk:
    nodes: int
    requests: tuple[DeviceRequest, ...]
    """Empty for a member that claims nothing; it follows its engine to the pool."""


@dataclass(frozen=True, slots=True)
class EngineAsk:
    name: str
    copies: int
    members: tuple[MemberAsk, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    deployment: Key
    replicas: int
    engines: tuple[EngineAsk, ...]
    cluster_selector: LabelSelector | None = field(default=None)
