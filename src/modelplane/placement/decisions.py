"""What becomes of a replica: the closed sets that a schedule is written in."""

from enum import StrEnum

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.values import PlacedReplica


class ReplicaDecision(StrEnum):
    """Of a replica that should be.

    KEPT     it stays, rendered as the deployment says today
    NEW      it was given a place in this pass
    MOVING   it should be elsewhere and stays, rendered as it is, until a successor serves or can be placed
    """

    KEPT = "Kept"
    NEW = "New"
    MOVING = "Moving"


class DropReason(StrEnum):
    """Of a replica that should not be.

    TAINTED          a NoExecute taint is not tolerated, or no longer
    OVERSUBSCRIBED   its pool was promised twice, and others come first
    PREEMPTED        a replica of higher priority takes its place
    SCALED_DOWN      fewer replicas are asked for
    REPLACED         a successor serves, or takes its place
    """

    TAINTED = "Tainted"
    OVERSUBSCRIBED = "Oversubscribed"
    PREEMPTED = "Preempted"
    SCALED_DOWN = "ScaledDown"
    REPLACED = "Replaced"


class Placement(msgspec.Struct, frozen=True):
    holding: PlacedReplica
    fate: ReplicaDecision
    why: str = ""
    """Why it moves."""


class Dropped(msgspec.Struct, frozen=True):
    holding: PlacedReplica
    reason: DropReason
    why: str = ""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """Who would make room for a replica that waits. Nothing is evicted before it was announced."""

    cluster: ClusterName
    victims: tuple[PlacedReplica, ...]
    acted: bool
    """Whether the replica was placed in this pass, so that the victims go."""

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(sorted(victim.digest for victim in self.victims))
