"""What a ModelDeployment reports: conditions, status and events, from what was decided and what serves."""

from collections import Counter

from modelplane.api.conditions import Condition, ConditionType, fails, holds, unknown
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.models import (
    Candidate,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelDeploymentStatusCluster,
    Preemption,
    StatusPlacement,
)
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, Event, EventType
from modelplane.compose.observed_replicas import unplaced
from modelplane.compose.replica_targets import replica_key
from modelplane.compose.rolling_update import Rollout
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.decisions import Dropped, DropReason, ReplicaDecision
from modelplane.placement.schedule import Schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import TraceCandidate as Found
from modelplane.placement.trace import summarise as summarise_refusals

MAX_CANDIDATES = 32
MAX_REASON = 512
MAX_SUMMARY = 1024
_SELECTING = frozenset({"ClusterSelector", "Affinity"})
_REMOVED = {DropReason.DRAINED: (EventType.WARNING, Reason.DRAIN_DEADLINE)}
_RUNNING = _SELECTING | {"Backend", "Caches"}
"""Filters that refuse what no capacity would help."""


def scheduled_condition(request: ComposeRequest[ModelDeployment], decided: Schedule, fleet: Fleet) -> Condition:
    wanted, placed = request.resource.spec.replicas, len(decided.placements)
    if placed and not len(fleet):
        message = f"the fleet has 0 clusters; {placed} of {wanted} replicas stay placed where they are"
        return unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, message)
    unread = _unread(request, decided)
    if unread:
        message = f"{placed} of {wanted} replicas placed; {unread}"
        return unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, message[:MAX_SUMMARY])
    if decided.unplaced == 0:
        return holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, f"{placed} of {wanted} replicas placed")
    message = f"{placed} of {wanted} replicas placed{_staying(decided)}"
    refusals = list(decided.trace.refusals())
    if refusals and all(refusal.filter in _SELECTING for refusal, _ in refusals):
        message = f"{message}: 0 of {len(fleet)} clusters match the selectors"
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.NO_CLUSTERS, message[:MAX_SUMMARY])
    why = summarise_refusals(refusals) or f"the fleet has {len(fleet)} clusters"
    runnable = not refusals or any(_may_run(refusal) for refusal, _ in refusals)
    reason = Reason.INSUFFICIENT_CAPACITY if runnable else Reason.NOT_RUNNABLE
    return fails(ConditionType.REPLICAS_SCHEDULED, reason, f"{message}; {why}"[:MAX_SUMMARY])


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


def _staying(decided: Schedule) -> str:
    """Replicas that must move and for which no other pool has capacity."""
    stuck = decided.unplaced - decided.pending
    whys = [placement.why for placement in decided.placements if placement.decision is ReplicaDecision.MOVING]
    if stuck <= 0 or not whys:
        return ""
    return f", {stuck} of them must move and no other pool has capacity ({whys[0]})"


def ready_condition(deployment: ModelDeployment, decided: Schedule, serving: int, rollout: Rollout) -> Condition:
    wanted = deployment.spec.replicas
    message = f"{serving} of {wanted} replicas serve"
    if rollout.message:
        message = f"{message}; {rollout.message}"
    if wanted == 0:
        return holds(ConditionType.REPLICAS_READY, Reason.SCALED_TO_ZERO, "spec.replicas is 0")
    if serving >= wanted:
        return holds(ConditionType.REPLICAS_READY, Reason.ALL_READY, message)
    reason = Reason.NOT_PLACED if decided.pending and serving == len(decided.placements) else Reason.STARTING
    return fails(ConditionType.REPLICAS_READY, reason, message)


def deployment_status(deployment: ModelDeployment, decided: Schedule, serving: Counter[str]) -> ModelDeploymentStatus:
    placed = Counter[str](placement.replica.cluster for placement in decided.placements)
    return ModelDeploymentStatus(
        replicas=len(decided.placements),
        ready_replicas=serving.total(),
        selector=f"{DEPLOYMENT}={deployment.metadata.name}",
        clusters=tuple(
            ModelDeploymentStatusCluster(name=name, replicas=count, ready=serving[name])
            for name, count in sorted(placed.items())
        ),
        placement=_placement(decided, placed),
    )


def _placement(decided: Schedule, placed: Counter[str]) -> StatusPlacement:
    shown, omitted = decided.trace.shown(MAX_CANDIDATES)
    preemption = decided.preemption
    return StatusPlacement(
        summary=_summary(decided, placed)[:MAX_SUMMARY],
        candidates=tuple(_candidate(found) for found in shown),
        omitted=omitted or None,
        preemption=Preemption(cluster=preemption.cluster, replicas=preemption.digests) if preemption else None,
    )


def _summary(decided: Schedule, placed: Counter[str]) -> str:
    parts = [", ".join(f"{count} on {cluster}" for cluster, count in sorted(placed.items())) or "0 placed"]
    moving = [placement for placement in decided.placements if placement.decision is ReplicaDecision.MOVING]
    if moving:
        parts.append(f"{len(moving)} must move ({moving[0].why})")
    if decided.pending:
        parts.append(f"{decided.pending} wait for capacity")
    preemption = decided.preemption
    if preemption is not None and not preemption.acted:
        parts.append(
            f"{len(preemption.victims)} replicas of lower priority on {preemption.cluster} are nominated for preemption"
        )
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
