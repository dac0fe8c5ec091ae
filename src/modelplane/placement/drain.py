"""Drain: replicas leave a cluster or a pool after their successors serve.

A NoExecute taint drains the replicas that do not tolerate it, or no longer; `spec.drain` drains all, as a taint that
nothing tolerates. A replica that serves and has to leave

waits its turn     while as many replicas as the drain allows are on their way from the cluster
moves              then: it stays until a successor serves
is dropped         when the deadline is over, with or without a successor

One that does not serve waits for nobody. A replica is on its way while its deployment has one that does not serve yet,
in a place that is not drained, and that was made after the drain began. That is read from the fleet, so deployments
that decide one after the other agree; two that decide at the same moment may exceed the limit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modelplane.api.labels import DRAIN
from modelplane.api.meta import ClusterName, Key
from modelplane.api.models import Toleration
from modelplane.api.timestamps import epoch_s
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import FOREVER, drains_at
from modelplane.placement.values import Effect, PlacedReplica, PlacementTaint

TURN_S = 5.0
"""How soon one that waits its turn is considered again: the progress of others is no change of its deployment."""


@dataclass(frozen=True, slots=True)
class ReplicaDrain:
    """What makes a replica leave its place."""

    why: str
    parallelism: int
    since: float | None
    """When it began, where that is known."""
    deadline: float
    """From when on the replica goes without a successor."""


def find_drain(
    replica: PlacedReplica, info: ClusterInfo, tolerations: tuple[Toleration, ...], now: float
) -> tuple[ReplicaDrain | None, float]:
    """What drains a replica, and when something else begins to. Of several drains the one with the nearest deadline."""
    found: list[ReplicaDrain] = []
    later = FOREVER
    for taint, pool in _taints(replica, info):
        at = drains_at(taint, tolerations)
        if at > now:
            later = min(later, at)
            continue
        found.append(ReplicaDrain(_why(replica, taint, pool), taint.parallelism, taint.since, _deadline(taint, at)))
    return min(found, key=lambda drain: drain.deadline, default=None), later


def is_drained(replica: PlacedReplica, info: ClusterInfo) -> bool:
    """Whether a NoExecute taint is on its place, tolerated or not."""
    return any(taint.effect is Effect.NO_EXECUTE for taint, _ in _taints(replica, info))


def _taints(replica: PlacedReplica, info: ClusterInfo) -> Iterator[tuple[PlacementTaint, str]]:
    """The taints of its cluster and of its pools, each with the pool."""
    if info.cluster is None:
        return
    yield from ((taint, "") for taint in info.cluster.taints)
    for assignment in replica.assignments:
        position = info.position(assignment.pool)
        if position is not None:
            yield from ((taint, assignment.pool) for taint in info.pools[position].taints)


def _why(replica: PlacedReplica, taint: PlacementTaint, pool: str) -> str:
    place = f"pool {pool} of cluster {replica.cluster}" if pool else f"cluster {replica.cluster}"
    return f"{place} is being drained" if taint.key == DRAIN else f"taint {taint.key} drains {place}"


def _deadline(taint: PlacementTaint, starts_at: float) -> float:
    """Tolerated time comes before the time that a drain may take."""
    if taint.since is None or taint.deadline_s is None:
        return FOREVER
    return (starts_at or taint.since) + taint.deadline_s


class DrainTurns:
    """Whose turn it is to move, in one scheduling cycle of one deployment."""

    __slots__ = ("_deployment", "_fleet", "_taken")

    def __init__(self, fleet: Fleet, deployment: Key) -> None:
        self._fleet = fleet
        self._deployment = deployment
        self._taken: dict[ClusterName, int] = {}
        """How many replicas may still move from a cluster."""

    def take(self, replica: PlacedReplica, drain: ReplicaDrain) -> bool:
        """Whether a replica may move now. Asked in the order of the replicas, the first ones may."""
        if not replica.serving:
            return True
        name = replica.cluster
        if name not in self._taken:
            self._taken[name] = self._allowed(name, drain)
        self._taken[name] -= 1
        return self._taken[name] >= 0

    def _allowed(self, name: ClusterName, drain: ReplicaDrain) -> int:
        owners = dict.fromkeys(held.deployment for held in self._fleet.infos[name].held.values())
        on_their_way = {owner: self._on_their_way(owner, drain.since) for owner in owners}
        free = max(drain.parallelism - sum(on_their_way.values()), 0)
        return min(on_their_way[self._deployment] + free, drain.parallelism)

    def _on_their_way(self, owner: Key, since: float | None) -> int:
        replicas: Iterable[PlacedReplica] = self._fleet.owned_by(owner)
        starting = (replica for replica in replicas if not replica.serving and not replica.leaving)
        return sum(
            _is_younger(replica, since) and not is_drained(replica, self._fleet.infos[replica.cluster])
            for replica in starting
        )


def _is_younger(replica: PlacedReplica, since: float | None) -> bool:
    created = epoch_s(replica.created)
    return since is None or created is None or created >= since
