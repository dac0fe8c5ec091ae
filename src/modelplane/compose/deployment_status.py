"""What a ModelDeployment reports: conditions, status and events, from what was decided and what serves."""

from collections import Counter
from collections.abc import Mapping, Sequence

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, unknown
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.models import (
    Candidate,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelDeploymentStatusCluster,
    NotReady,
    Preemption,
    StatusPlacement,
)
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, Event, EventType
from modelplane.compose.deployment_causes import not_ready_words
from modelplane.compose.observed_replicas import unplaced
from modelplane.compose.placement_request import failover_policy
from modelplane.compose.replica_targets import replica_key
from modelplane.compose.rolling_update import Rollout
from modelplane.compose.startup import StartupWait
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.decisions import Dropped, DropReason, ReplicaDecision
from modelplane.placement.filters import CachesFilter
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import TraceCandidate as Found
from modelplane.placement.trace import summarise as summarise_refusals

MAX_CANDIDATES = 32
MAX_CLUSTERS = 1_000
MAX_REASON = 512
MAX_SUMMARY = 1024
_SELECTING = frozenset({"ClusterSelector", "Affinity", "Tiers"})
_REMOVED = {DropReason.DRAINED: (EventType.WARNING, Reason.DRAIN_DEADLINE)}
_RUNNING = _SELECTING | {"Backend", "Caches"}
"""Filters that refuse what no capacity would help."""
_WAITS_FOR_CAPACITY = "wait for capacity"
_WAITS: Mapping[str, str] = {
    Reason.FITS_NOWHERE: "fit nowhere",
    Reason.NO_CLUSTERS: "match no cluster",
    Reason.NOT_RUNNABLE: "no cluster can run",
    Reason.CACHE_MISSING: "wait for a ModelCache that does not exist",
    Reason.CACHE_STAGING: "wait for a ModelCache to be staged",
    Reason.CACHE_FAILED: "wait for a ModelCache whose staging fails",
}
"""What replicas without a place do."""


def scheduled_condition(request: ComposeRequest[ModelDeployment], decided: Schedule, fleet: Fleet) -> Condition:
    wanted, placed = request.resource.spec.replicas, len(decided.placements)
    if placed and not len(fleet):
        message = f"the fleet has 0 clusters; {placed} of {wanted} replicas stay placed where they are"
        return unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, message)
    unread = _unread(request, decided)
    if unread:
        message = f"{placed} of {wanted} replicas placed; {unread}"
        return unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, message[:MAX_SUMMARY])
    absent = _absent(decided, fleet)
    if absent:
        message = f"{placed} of {wanted} replicas placed; {absent}"
        return unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, message[:MAX_SUMMARY])
    if decided.unplaced == 0:
        return holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, f"{placed} of {wanted} replicas placed")
    message = f"{placed} of {wanted} replicas placed{_staying(decided)}"
    if not len(fleet):
        message = f"{message}: the fleet has no clusters; apply an InferenceCluster"
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.NO_CLUSTERS, message)
    refusals = list(decided.trace.refusals())
    if refusals and all(refusal.filter in _SELECTING for refusal, _ in refusals):
        message = f"{message}: 0 of {len(fleet)} clusters match the selectors"
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.NO_CLUSTERS, message[:MAX_SUMMARY])
    why = summarise_refusals(refusals)
    return fails(ConditionType.REPLICAS_SCHEDULED, _unplaced_reason(decided), f"{message}; {why}"[:MAX_SUMMARY])


def _unplaced_reason(decided: Schedule) -> Reason:
    refusals = [refusal for refusal, _ in decided.trace.refusals()]
    if any(refusal.template == CachesFilter.missing for refusal in refusals):
        return Reason.CACHE_MISSING
    # Clusters that are not selected have no part in it.
    decisive = [refusal for refusal in decided.trace.decisive if refusal.filter not in _SELECTING]
    if {refusal.filter for refusal in decisive} == {CachesFilter.name}:
        passing = {refusal.template for refusal in decisive if refusal.code is RefusalCode.UNSCHEDULABLE}
        return Reason.CACHE_STAGING if passing - {CachesFilter.stalled} else Reason.CACHE_FAILED
    if refusals and not any(map(_may_run, refusals)):
        return Reason.NOT_RUNNABLE
    return Reason.FITS_NOWHERE if decided.trace.fits_nowhere else Reason.INSUFFICIENT_CAPACITY


def _may_run(refusal: Refusal) -> bool:
    return refusal.filter not in _RUNNING or refusal.code is RefusalCode.UNSCHEDULABLE


def _unread(request: ComposeRequest[ModelDeployment], decided: Schedule) -> str:
    """Replicas that cannot be read and stay as they are; empty where all can be."""
    found = [(replica_key(item.replica), item.replica.fault) for item in decided.placements if item.replica.fault]
    found += [(key, "its key names no cluster and index") for key in unplaced(request.observed)]
    if not found:
        return ""
    key, fault = found[0]
    return f"{len(found)} of them cannot be read and stay as they are ({key}: {fault})"


def _absent(decided: Schedule, fleet: Fleet) -> str:
    """Replicas that stay on a cluster that the fleet lacks; empty where there are none."""
    kept = (item.replica for item in decided.placements if item.decision is ReplicaDecision.KEPT)
    found = [replica.cluster for replica in kept if fleet.cluster(replica.cluster) is None]
    if not found:
        return ""
    return f"{len(found)} of them stay on clusters that are not listed ({found[0]})"


def _staying(decided: Schedule) -> str:
    """Replicas that must move and for which no other pool has capacity."""
    whys = [placement.why for placement in decided.placements if placement.decision is ReplicaDecision.MOVING]
    if not whys:
        return ""
    return f", {decided.unplaced - decided.pending} of them must move and no other pool has capacity ({whys[0]})"


def ready_condition(
    request: ComposeRequest[ModelDeployment],
    decided: Schedule,
    serving: int,
    rollout: Rollout,
    not_ready: Sequence[NotReady],
) -> Condition:
    """The worst reason of the replicas that do not serve, with how many, since when and what happens next."""
    kind, spec = ConditionType.REPLICAS_READY, request.resource.spec
    wanted = spec.replicas
    if wanted == 0:
        return holds(kind, Reason.SCALED_TO_ZERO, "spec.replicas is 0")
    failover = failover_policy(spec)
    waiting = f"{decided.pending} of {wanted} not placed" if decided.pending else ""
    parts = [
        f"{serving} of {wanted} replicas serve",
        not_ready_words(not_ready, wanted, request.now, failover),
        waiting,
        rollout.message,
    ]
    message = "; ".join(part for part in parts if part)[:MAX_SUMMARY]
    if serving >= wanted:
        return holds(kind, Reason.ALL_READY, message)
    if not_ready:
        return Condition(type=kind, status=ConditionStatus.FALSE, reason=not_ready[0].reason, message=message)
    return fails(kind, Reason.NOT_PLACED if decided.pending else Reason.STARTING, message)


def deployment_status(
    deployment: ModelDeployment,
    decided: Schedule,
    serving: Counter[str],
    not_ready: tuple[NotReady, ...],
    conditions: Sequence[Condition],
    wait: StartupWait | None = None,
) -> ModelDeploymentStatus:
    """The first condition is ReplicasScheduled."""
    placed = Counter[str](placement.replica.cluster for placement in decided.placements)
    reason, message = _reported(conditions)
    return ModelDeploymentStatus(
        replicas=len(decided.placements),
        ready_replicas=serving.total(),
        selector=f"{DEPLOYMENT}={deployment.metadata.name}",
        reason=reason,
        message=message,
        not_ready=not_ready,
        clusters=tuple(
            ModelDeploymentStatusCluster(name=name, replicas=count, ready=serving[name])
            for name, count in sorted(placed.most_common(MAX_CLUSTERS))
        ),
        placement=_placement(decided, placed, conditions[0].reason, wait),
    )


def _reported(conditions: Sequence[Condition]) -> tuple[str, str | None]:
    """The reason and message of a status: those of the conditions that do not hold."""
    failing = [condition for condition in conditions if condition.status is not ConditionStatus.TRUE]
    message = "; ".join(condition.message for condition in failing)[:MAX_SUMMARY]
    return (failing or conditions[-1:])[0].reason, message or None


def _placement(decided: Schedule, placed: Counter[str], reason: str, wait: StartupWait | None) -> StatusPlacement:
    shown, omitted = decided.trace.shown(MAX_CANDIDATES)
    preemption = decided.preemption
    return StatusPlacement(
        summary=_summary(decided, placed, reason, wait)[:MAX_SUMMARY],
        candidates=tuple(_candidate(found) for found in shown),
        omitted=omitted or None,
        preemption=Preemption(cluster=preemption.cluster, replicas=preemption.digests) if preemption else None,
    )


def _summary(decided: Schedule, placed: Counter[str], reason: str, wait: StartupWait | None) -> str:
    """`reason` is that of the condition ReplicasScheduled."""
    pending = decided.pending - (wait.unplaced if wait is not None else 0)
    parts = [", ".join(f"{count} on {cluster}" for cluster, count in sorted(placed.items())) or "0 placed"]
    moving = [placement for placement in decided.placements if placement.decision is ReplicaDecision.MOVING]
    if moving:
        parts.append(f"{len(moving)} must move ({moving[0].why})")
    if pending:
        parts.append(f"{pending} {_WAITS.get(reason, _WAITS_FOR_CAPACITY)}")
    preemption = decided.preemption
    if preemption is not None and not preemption.acted:
        parts.append(
            f"{len(preemption.victims)} replicas of lower priority on {preemption.cluster} are nominated for preemption"
        )
    if wait is not None:
        parts.append(f"{wait.replicas} held for starting clusters")
    return "; ".join(parts)


def _candidate(found: Found) -> Candidate:
    reason = f"engine {found.engine}: {found.reason}" if found.engine else found.reason
    return Candidate(
        cluster=found.cluster,
        pool=found.pool,
        verdict=found.verdict.value,
        filter_=found.filter or None,
        reason=reason[:MAX_REASON] or None,
        score=f"{found.score:.3f}" if found.score is not None else None,
    )


def placement_events(
    request: ComposeRequest[ModelDeployment], decided: Schedule, dropped: tuple[Dropped, ...]
) -> tuple[Event, ...]:
    """`dropped` are those that leave the desired state in this pass."""
    placed = [
        Event(EventType.NORMAL, Reason.PLACED, f"replica {placed.index} is placed on cluster {placed.cluster}")
        for placed in (placement.replica for placement in decided.placements)
        if replica_key(placed) not in request.observed
    ]
    removed = [
        Event(
            *_REMOVED.get(gone.reason, (EventType.NORMAL, Reason.REMOVED)),
            f"replica {gone.replica.index} is removed from cluster {gone.replica.cluster}: {gone.why}",
        )
        for gone in dropped
    ]
    return (*placed, *removed)
