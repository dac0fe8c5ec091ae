"""ModelDeployment: places replicas, and composes a ModelEndpoint for each replica that serves.

The result has every replica every time. An observed replica that is missing from the list of replicas is placed where
it was composed. When an input of placement is missing or a replica cannot be read, the observed replicas stay and a
condition names the input. A ModelEndpoint is kept for ENDPOINT_GRACE_S after its ModelReplica stops serving. A
ModelReplica that is dropped goes after its ModelEndpoint: see `replica_removal`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, summarise, unknown
from modelplane.api.labels import CANARY, REVISION, TRACK
from modelplane.api.models import ModelDeployment, ModelDeploymentStatus, TemplateRevision
from modelplane.api.objects import API_VERSION
from modelplane.api.reasons import Reason
from modelplane.compose.canary import CanaryState, canary_state, outdated_count
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Event,
    Local,
    Observed,
    ReadyWhen,
    Requirement,
    keep_observed,
)
from modelplane.compose.deployment_causes import IdleReplica, replicas_not_ready
from modelplane.compose.deployment_status import (
    deployment_status,
    placement_events,
    ready_condition,
    scheduled_condition,
)
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.lowering import Lowered, lower
from modelplane.compose.observed_replicas import (
    ENDPOINT_PREFIX,
    REPLICA_PREFIX,
    unplaced,
    with_observed,
    without_contradicted,
)
from modelplane.compose.placement_labels import with_placement_labels
from modelplane.compose.placement_request import failover_policy, placement_request
from modelplane.compose.readiness import serves
from modelplane.compose.replica_endpoints import (
    endpoint_is_stale,
    endpoint_key,
    grace_left_s,
    replica_endpoint,
)
from modelplane.compose.replica_removal import LINGER_S, removal_of
from modelplane.compose.replica_targets import replica_key, replica_targets
from modelplane.compose.revisions import effective, recorded
from modelplane.compose.rolling_update import Rollout, settling_s
from modelplane.compose.rollout_halts import with_halt, with_stable
from modelplane.compose.rollout_progress import RolloutProgress, rollout_progress
from modelplane.compose.startup import StartupWait, hold_back, startup_wait, with_wait
from modelplane.compose.surge import outdated_replicas, without_unreached
from modelplane.compose.transitions import transitions
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import Schedule, schedule
from modelplane.placement.selector_budget import compile_fault, evaluation_fault
from modelplane.placement.snapshot import Fleet

_CLUSTERS, _REPLICAS, _CACHES = "clusters", "replicas", "caches"
_PREEMPTION_REQUEUE_S = 1.0


def compose(request: ComposeRequest[ModelDeployment]) -> ComposeResult:
    request = replace(request, resource=effective(request.resource))
    revisions = recorded(request.resource, request.now)
    canary = canary_state(request, revisions[-1].hash_)
    if canary.halt is not None:
        return _halted(request, revisions, canary)
    return _composed(request, revisions, canary)


def _halted(
    request: ComposeRequest[ModelDeployment], revisions: tuple[TemplateRevision, ...], canary: CanaryState
) -> ComposeResult:
    """With the revision that was promoted last. Where that was not recorded, no further replica gets the halted one."""
    revisions = with_halt(revisions, canary.halt)
    stable = with_stable(request.resource, revisions, canary.stable)
    if stable is None:
        return _composed(request, revisions, canary)
    return _composed(replace(request, resource=stable), revisions, canary, canary.stable)


def _composed(
    request: ComposeRequest[ModelDeployment],
    revisions: tuple[TemplateRevision, ...],
    canary: CanaryState,
    wanted_hash: str = "",
) -> ComposeResult:
    """`wanted_hash`: the revision that replicas are to have; by default the newest."""
    deployment = request.resource
    requirements = {} if request.fleet else _requirements(deployment)
    lowered = lower(deployment.spec)
    engines = tuple(engine.request() for engine in lowered.engines)
    fault = compile_fault(engines)
    if fault is not None:
        return _undecided(request, _invalid_selector(fault), requirements)
    fleet = request.fleet or _fleet(request)
    if fleet is None:
        waiting = unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, "the fleet is not read yet")
        return _undecided(request, waiting, requirements)
    fault = evaluation_fault(engines, fleet)
    if fault is not None:
        return _undecided(request, _invalid_selector(fault), requirements)
    revision = wanted_hash or revisions[-1].hash_
    track = {} if canary.promoted or wanted_hash else {TRACK: CANARY}
    lowered = replace(lowered, labels={**lowered.labels, REVISION: revision, **track})
    fleet = with_observed(fleet, deployment.metadata.key, request.observed, request.decode_replica)
    fleet = without_unreached(fleet, request, revision)
    wanted = placement_request(deployment, lowered)
    wanted = msgspec.structs.replace(
        wanted,
        outdated=outdated_replicas(request, revision),
        rolling_out=outdated_count(request, revision) > 0,
    )
    decided = schedule(wanted, fleet, request.now, profile=request.profile)
    wait = startup_wait(deployment, wanted, fleet, request.now)
    if wait is not None:
        decided, wait = hold_back(decided, wait, request.observed)
    weigh = partial(canary.endpoint_weight, newest=revisions[-1].hash_)
    result, rollout = _decided(request, lowered, fleet, decided, wait, weigh)
    changes = transitions(request.resource.status.conditions, result.conditions)
    result = replace(result, events=(*result.events, *changes), requirements=requirements)
    leaving = any(placement.decision is ReplicaDecision.MOVING for placement in decided.placements) or any(
        replica_key(dropped.replica) in result.desired for dropped in decided.dropped
    )
    progress = rollout_progress(deployment, revisions[-1], rollout, request.now, leaving=leaving, canary=canary)
    return _with_progress(request, result, progress, revisions)


def _requirements(deployment: ModelDeployment) -> dict[str, Requirement]:
    return {
        _CLUSTERS: Requirement(API_VERSION, "InferenceCluster"),
        _REPLICAS: Requirement(API_VERSION, "ModelReplica"),
        _CACHES: Requirement(API_VERSION, "ModelCache", namespace=deployment.metadata.namespace),
    }


def _fleet(request: ComposeRequest[ModelDeployment]) -> Fleet | None:
    clusters, replicas, caches = (request.fetched(name) for name in (_CLUSTERS, _REPLICAS, _CACHES))
    if clusters is None or replicas is None or caches is None:
        return None
    listed = without_contradicted(replicas, request.resource.metadata.key, request.observed)
    return (request.read_fleet or fleet_of)(clusters, listed, caches)


def _invalid_selector(fault: str) -> Condition:
    return fails(ConditionType.REPLICAS_SCHEDULED, Reason.INVALID_SELECTOR, fault)


def _undecided(
    request: ComposeRequest[ModelDeployment], problem: Condition, requirements: dict[str, Requirement]
) -> ComposeResult:
    """Nothing is decided: the observed replicas stay, and the condition says why."""
    return ComposeResult(
        desired=observed_without_stale_endpoints(request),
        conditions=(problem,),
        ready=summarise([problem]),
        events=transitions(request.resource.status.conditions, [problem]),
        requirements=requirements,
    )


def observed_without_stale_endpoints(request: ComposeRequest[ModelDeployment]) -> dict[str, Desired]:
    return {key: item for key, item in keep_observed(request).items() if not endpoint_is_stale(request, key)}


def _decided(
    request: ComposeRequest[ModelDeployment],
    lowered: Lowered,
    fleet: Fleet,
    decided: Schedule,
    wait: StartupWait | None,
    weigh: Callable[[str], int | None],
) -> tuple[ComposeResult, Rollout]:
    removal = removal_of(request, decided, fleet)
    desired = {**_kept_unplaced(request), **removal.lingering}
    serving: Counter[str] = Counter()
    graces: list[float] = []
    idle: list[IdleReplica] = []
    held_back = [each.replica.cluster for each in decided.placements if removal.holds_back(each)]
    shown = msgspec.structs.replace(
        decided, placements=tuple(each for each in decided.placements if not removal.holds_back(each))
    )
    rollout, targets = replica_targets(request, lowered, shown, fleet)
    for placement in shown.placements:
        placed = placement.replica
        seen = request.observed.get(replica_key(placed))
        target = targets.get(replica_key(placed))
        if target is None:
            continue
        target = with_placement_labels(target, placed.cluster, fleet, seen)
        desired[replica_key(placed)] = Desired(target, seen is not None and seen.ready)
        key = endpoint_key(placed)
        known = request.observed.get(key)
        settles_s = 0.0 if seen is None or known is not None else _settling_s(request, seen)
        answers = seen is not None and serves(seen.manifest) and not settles_s
        if not answers:
            idle.append((placed.cluster, seen.manifest if seen is not None else None))
        left_s = 0.0 if answers or seen is None or known is None else grace_left_s(seen, request.now)
        endpoint = (
            replica_endpoint(target, placed.cluster, seen, weigh) if seen is not None and (answers or left_s) else None
        )
        if endpoint is not None:
            desired[key] = Desired(Local(endpoint, ReadyWhen.READY), known is not None and known.ready)
            serving[placed.cluster] += answers
            graces.append(left_s)
        elif settles_s:
            graces.append(settles_s)
        elif known is not None and not endpoint_is_stale(request, key):
            desired[key] = Desired(known.target, known.ready)
    failover = failover_policy(request.resource.spec)
    not_ready = replicas_not_ready(idle, fleet, failover, held_back)
    scheduled, wait = with_wait(scheduled_condition(request, decided, fleet), wait, len(decided.placements))
    conditions = (
        scheduled,
        ready_condition(request, decided, serving.total(), rollout, not_ready),
    )
    waits_s = [wait.until - request.now] if wait is not None else []
    lingers_s = [LINGER_S] if removal.lingering else []
    result = ComposeResult(
        desired=desired,
        status=deployment_status(request.resource, decided, serving, not_ready, conditions, wait),
        conditions=conditions,
        ready=summarise(conditions, conditions[-1].message),
        events=placement_events(request, shown, removal.removed),
        requeue_after_s=_requeue_after_s(decided, [*graces, *lingers_s, *waits_s]),
    )
    return result, rollout


def _settling_s(request: ComposeRequest[ModelDeployment], seen: Observed) -> float:
    return settling_s(seen.manifest, float(request.resource.spec.rollout.min_ready_seconds), request.now)


def _with_progress(
    request: ComposeRequest[ModelDeployment],
    result: ComposeResult,
    progress: RolloutProgress,
    revisions: tuple[TemplateRevision, ...],
) -> ComposeResult:
    """The result with the revisions and how far the update to the newest one is."""
    status = result.status
    assert isinstance(status, ModelDeploymentStatus)  # noqa: S101  a deployment's result
    updated = progress.status.updated_replicas
    status = msgspec.structs.replace(status, updated_replicas=updated, rollout=progress.status, revisions=revisions)
    waits = [wait for wait in (result.requeue_after_s, progress.requeue_after_s) if wait is not None]
    return replace(
        result,
        status=status,
        conditions=(*result.conditions, progress.condition),
        events=(*result.events, *_progress_events(request, progress.condition)),
        requeue_after_s=min(waits, default=None),
    )


def _progress_events(request: ComposeRequest[ModelDeployment], condition: Condition) -> tuple[Event, ...]:
    """None for a pause: whoever pauses knows."""
    known = condition.status is not ConditionStatus.UNKNOWN
    return transitions(request.resource.status.conditions, (condition,)) if known else ()


def _kept_unplaced(request: ComposeRequest[ModelDeployment]) -> dict[str, Desired]:
    """Observed replicas whose key names no place, with their endpoints. Nothing decides about them."""
    names = [key.removeprefix(REPLICA_PREFIX) for key in unplaced(request.observed)]
    keys = {prefix + name for name in names for prefix in (REPLICA_PREFIX, ENDPOINT_PREFIX)}
    return {key: item for key, item in observed_without_stale_endpoints(request).items() if key in keys}


def _requeue_after_s(decided: Schedule, graces: Sequence[float]) -> float | None:
    """When time alone changes the result. Nominated victims are evicted on the next pass."""
    waits = [each for each in (decided.requeue_after_s, *graces) if each]
    if decided.preemption is not None and not decided.preemption.acted:
        waits.append(_PREEMPTION_REQUEUE_S)
    return min(waits, default=decided.requeue_after_s)
