"""A new deployment waits for new clusters before it places more than its even share on the others.

Clusters and models are often applied together, and the first cluster that is ready would get every replica: a replica
is not moved for balance later. So while a cluster that the deployment may use is not ready yet, and both are younger
than STARTUP_WAIT_S, a cluster gets at most the share that it would have if all were ready. The rest is placed when the
clusters are ready or the time is over. Nothing that exists is held back. Replicas for which the ready clusters have no
capacity wait in the same way, and say so: until then nobody has to act.

A cluster that still fetches a cache that the deployment requires counts as one that is starting: small caches are
complete within seconds of each other.
"""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, replace
from math import ceil

import msgspec

from modelplane.api.conditions import Condition, ConditionType, fails
from modelplane.api.labels import selects
from modelplane.api.models import ModelDeployment
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.observed_replicas import composition_key
from modelplane.placement.decisions import Placement, ReplicaDecision
from modelplane.placement.request import PlacementRequest
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import keeping_away
from modelplane.placement.values import Cluster

STARTUP_WAIT_S = 30.0
_SHOWN = 3
_PASSING = frozenset({Reason.ALL_PLACED, Reason.INSUFFICIENT_CAPACITY})


@dataclass(frozen=True, slots=True)
class StartupWait:
    clusters: tuple[str, ...]
    """Those that are not ready yet."""
    until: float
    """When it is over, in seconds of the epoch."""
    wanted: int
    """How many replicas the deployment has when it is over."""
    held: int = 0
    """How many have a place and are held back."""
    unplaced: int = 0
    """How many have no place on the clusters that are ready, and wait in the same way."""

    @property
    def replicas(self) -> int:
        return self.held + self.unplaced

    def condition(self, placed: int) -> Condition:
        more = f" and {len(self.clusters) - _SHOWN} more" if len(self.clusters) > _SHOWN else ""
        names = f"{', '.join(self.clusters[:_SHOWN])}{more}"
        message = (
            f"{placed} of {self.wanted} replicas placed; {self.replicas} "
            f"{'waits' if self.replicas == 1 else 'wait'} until {timestamp(self.until)} at most for clusters that are "
            f"starting: {names}"
        )
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.WAITING_FOR_CLUSTERS, message)


def startup_wait(
    deployment: ModelDeployment, request: PlacementRequest, fleet: Fleet, now: float
) -> StartupWait | None:
    """The wait of a deployment that is new, where clusters are; None where there is none."""
    created = epoch_s(deployment.metadata.creation_timestamp)
    if not now or created is None or created + STARTUP_WAIT_S <= now:
        return None
    ends = {cluster.name: end for cluster in fleet.clusters if (end := _starts_until(cluster, request)) > now}
    fetching = (cluster for cluster in fleet.clusters if cluster.name not in ends and _fetches(cluster, request, fleet))
    ends |= {cluster.name: created + STARTUP_WAIT_S for cluster in fetching}
    if not ends:
        return None
    return StartupWait(tuple(ends), min(created + STARTUP_WAIT_S, max(ends.values())), request.replicas)


def _starts_until(cluster: Cluster, request: PlacementRequest) -> float:
    """Until when a cluster counts as starting; 0 for one that does not, or that the deployment may not use."""
    if cluster.ready or cluster.created is None or not _may_use(cluster, request):
        return 0.0
    return cluster.created + STARTUP_WAIT_S


def _may_use(cluster: Cluster, request: PlacementRequest) -> bool:
    if cluster.cordoned or cluster.deletion or cluster.fault:
        return False
    wanted = not request.required or any(selects(selector, cluster.labels) for selector in request.required)
    if not wanted or not selects(request.cluster_selector, cluster.labels):
        return False
    return not keeping_away(cluster.taints, request.tolerations)


def _fetches(cluster: Cluster, request: PlacementRequest, fleet: Fleet) -> bool:
    """Whether a cluster that is ready has yet to complete a cache that the deployment requires."""
    if not request.caches or not cluster.ready or not _may_use(cluster, request):
        return False
    namespace = request.deployment.namespace
    caches = (fleet.caches.get((namespace, wanted.name)) for wanted in request.caches if wanted.required)
    return any(cache is not None and cluster.name in cache.awaited for cache in caches)


def hold_back(decided: Schedule, wait: StartupWait, observed: Container[str]) -> tuple[Schedule, StartupWait | None]:
    """The schedule without new replicas beyond the even share of their cluster. `observed` are composition keys.

    The wait has how many are held back, or have no place yet; None where there are none.
    Where replicas are dropped, the new ones may be their successors: then nothing is held back.
    """
    if decided.dropped:
        return decided, None
    used = {placement.replica.cluster for placement in decided.placements}
    share = ceil(wait.wanted / (len(used) + len(wait.clusters)))
    placed: Counter[str] = Counter()
    kept: list[Placement] = []
    for placement in sorted(decided.placements, key=_is_new):
        replica = placement.replica
        new = _is_new(placement) and composition_key(replica.cluster, replica.index) not in observed
        if not new or replica.preempts or placed[replica.cluster] < share:
            placed[replica.cluster] += 1
            kept.append(placement)
    held = len(decided.placements) - len(kept)
    if not held:
        waits = decided.pending and decided.preemption is None
        return decided, replace(wait, unplaced=decided.pending) if waits else None
    ordered = tuple(placement for placement in decided.placements if placement in kept)
    return msgspec.structs.replace(decided, placements=ordered), replace(wait, held=held)


def _is_new(placement: Placement) -> bool:
    return placement.decision is ReplicaDecision.NEW


def with_wait(scheduled: Condition, wait: StartupWait | None, placed: int) -> tuple[Condition, StartupWait | None]:
    """The condition ReplicasScheduled beside a wait, and the wait where something still waits.

    A reason that no new cluster changes stays. Beside it only what is held back waits: the schedule lacks it.
    """
    if wait is None:
        return scheduled, None
    if scheduled.reason in _PASSING:
        return wait.condition(placed), wait
    return scheduled, wait if wait.held else None
