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

from modelplane.api.conditions import ConditionType, fails, summarise
from modelplane.api.labels import selects
from modelplane.api.models import ModelDeployment, ModelDeploymentStatus
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.contract import ComposeResult
from modelplane.compose.deployment_status import WAITS_FOR_CAPACITY, reported
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
    replicas: int = 0
    """How many are held back."""

    def message(self, placed: int, wanted: int) -> str:
        more = f" and {len(self.clusters) - _SHOWN} more" if len(self.clusters) > _SHOWN else ""
        names = f"{', '.join(self.clusters[:_SHOWN])}{more}"
        return (
            f"{placed} of {wanted} replicas placed; {self.replicas} "
            f"{'waits' if self.replicas == 1 else 'wait'} until {timestamp(self.until)} at most for clusters that are "
            f"starting: {names}"
        )


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
    until = min(created + STARTUP_WAIT_S, max(ends.values(), default=0.0))
    return StartupWait(tuple(ends), until) if ends else None


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


def hold_back(
    decided: Schedule, wait: StartupWait, wanted: int, observed: Container[str]
) -> tuple[Schedule, StartupWait | None]:
    """The schedule without new replicas beyond the even share of their cluster. `observed` are composition keys.

    The wait has how many are held back, or have no place yet; None where there are none.
    Where replicas are dropped, the new ones may be their successors: then nothing is held back.
    """
    if decided.dropped:
        return decided, None
    used = {placement.replica.cluster for placement in decided.placements}
    share = ceil(wanted / max(len(used) + len(wait.clusters), 1))
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
        return decided, replace(wait, replicas=decided.pending) if waits else None
    ordered = tuple(placement for placement in decided.placements if placement in kept)
    return msgspec.structs.replace(decided, placements=ordered), replace(wait, replicas=held)


def _is_new(placement: Placement) -> bool:
    return placement.decision is ReplicaDecision.NEW


def with_wait(result: ComposeResult, wait: StartupWait, wanted: int, now: float) -> ComposeResult:
    """The result with what is held back in its condition and status, and a requeue for when the wait is over.

    A reason that no new cluster changes stays as it is.
    """
    status = result.status
    assert isinstance(status, ModelDeploymentStatus)  # noqa: S101  a deployment's result
    shown = status.placement
    assert shown is not None  # noqa: S101  a deployment that was decided
    message = wait.message(status.replicas or 0, wanted)
    waiting = fails(ConditionType.REPLICAS_SCHEDULED, Reason.WAITING_FOR_CLUSTERS, message)
    if not any(each.type == waiting.type and each.reason in _PASSING for each in result.conditions):
        return result
    conditions = tuple(waiting if each.type == waiting.type else each for each in result.conditions)
    first = shown.summary.partition(f"; {wait.replicas} {WAITS_FOR_CAPACITY}")[0] if shown.summary else ""
    summary = f"{first}; {wait.replicas} held for starting clusters"
    reason, said = reported(conditions)
    placement = msgspec.structs.replace(shown, summary=summary)
    status = msgspec.structs.replace(status, reason=reason, message=said, placement=placement)
    waits = [each for each in (result.requeue_after_s, wait.until - now) if each]
    return replace(
        result, status=status, conditions=conditions, ready=summarise(conditions), requeue_after_s=min(waits)
    )
