"""What becomes of a replica: the closed sets that a schedule is written in."""

from enum import StrEnum

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.values import PlacedReplica


class ReplicaDecision(StrEnum):
    """Of a replica that should be.

    KEPT     it stays, rendered as the deployment says today
    NEW      it was placed in this cycle
    MOVING   it should be elsewhere and stays, rendered as it is, until a successor serves or can be placed
    """

    KEPT = "Kept"
    NEW = "New"
    MOVING = "Moving"


class DropReason(StrEnum):
    """Of a replica that should not be.

    DRAINED          the deadline of a drain is over, and no successor serves
    OVERSUBSCRIBED   its pool or quota is oversubscribed, and others rank before it
    PREEMPTED        a replica of higher priority takes its devices
    SCALED_DOWN      the deployment wants fewer replicas
    REPLACED         a successor serves, or takes its place
    """

    DRAINED = "Drained"
    OVERSUBSCRIBED = "Oversubscribed"
    PREEMPTED = "Preempted"
    SCALED_DOWN = "ScaledDown"
    REPLACED = "Replaced"


class Placement(msgspec.Struct, frozen=True):
    replica: PlacedReplica
    decision: ReplicaDecision
    why: str = ""
    """Why it moves."""


class Dropped(msgspec.Struct, frozen=True):
    replica: PlacedReplica
    reason: DropReason
    why: str = ""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """The victims of a pending replica. None is evicted before the deployment's status nominates it."""

    cluster: ClusterName
    victims: tuple[PlacedReplica, ...]
    acted: bool
    """Whether the replica was placed in this cycle, so that the victims are evicted."""

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(sorted(victim.digest for victim in self.victims))
