"""ModelDeployment: places replicas, and composes a ModelEndpoint for each replica that serves.

The result has every replica every time. An observed replica that is missing from the list of replicas is placed where
it was composed. When an input of placement is missing or a replica cannot be read, the observed replicas stay and a
condition names the input. A ModelEndpoint is kept for ENDPOINT_GRACE_S after its ModelReplica stops serving.
"""

from collections import Counter
from collections.abc import Sequence

from modelplane.api.conditions import Condition, ConditionType, fails, summarise, unknown
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import API_VERSION
from modelplane.api.reasons import Reason
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Local,
    ReadyWhen,
    Requirement,
    keep_observed,
)
from modelplane.compose.deployment_status import (
    deployment_status,
    placement_events,
    ready_condition,
    scheduled_condition,
)
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.lowering import Lowered, lower
from modelplane.compose.observed_replicas import REPLICA_PREFIX, unplaced, with_observed, without_contradicted
from modelplane.compose.placement_request import placement_request
from modelplane.compose.readiness import serves
from modelplane.compose.replica_endpoints import (
    ENDPOINT_PREFIX,
    endpoint_is_stale,
    endpoint_key,
    grace_left_s,
    replica_endpoint,
)
from modelplane.compose.replica_targets import replica_key, replica_targets
from modelplane.compose.startup import hold_back, startup_wait, with_wait
from modelplane.placement.schedule import Schedule, schedule
from modelplane.placement.selector_budget import compile_fault, evaluation_fault
from modelplane.placement.snapshot import Fleet

_CLUSTERS, _REPLICAS, _CACHES = "clusters", "replicas", "caches"
_PREEMPTION_REQUEUE_S = 1.0


def compose(request: ComposeRequest[ModelDeployment]) -> ComposeResult:
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
    fleet = with_observed(fleet, deployment.metadata.key, request.observed)
    wanted = placement_request(deployment, lowered)
    decided = schedule(wanted, fleet, request.now, profile=request.profile)
    wait = startup_wait(deployment, wanted, fleet, request.now)
    if wait is not None:
        decided, wait = hold_back(decided, wait, wanted.replicas, request.observed)
    result = _decided(request, lowered, fleet, decided, requirements)
    return result if wait is None else with_wait(result, wait, wanted.replicas, request.now)


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
    return fleet_of(clusters, listed, caches)


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
        requirements=requirements,
    )


def observed_without_stale_endpoints(request: ComposeRequest[ModelDeployment]) -> dict[str, Desired]:
    return {key: item for key, item in keep_observed(request).items() if not endpoint_is_stale(request, key)}


def _decided(
    request: ComposeRequest[ModelDeployment],
    lowered: Lowered,
    fleet: Fleet,
    decided: Schedule,
    requirements: dict[str, Requirement],
) -> ComposeResult:
    desired = _kept_unplaced(request)
    serving: Counter[str] = Counter()
    graces: list[float] = []
    rollout, targets = replica_targets(request, lowered, decided)
    for placement in decided.placements:
        placed = placement.replica
        seen = request.observed.get(replica_key(placed))
        target = targets.get(replica_key(placed))
        if target is None:
            continue
        desired[replica_key(placed)] = Desired(target, seen is not None and seen.ready)
        key = endpoint_key(placed)
        known = request.observed.get(key)
        answers = seen is not None and serves(seen.manifest)
        left_s = 0.0 if answers or seen is None or known is None else grace_left_s(seen, request.now)
        endpoint = replica_endpoint(target, placed.cluster, seen) if seen is not None and (answers or left_s) else None
        if endpoint is not None:
            desired[key] = Desired(Local(endpoint, ReadyWhen.READY), known is not None and known.ready)
            serving[placed.cluster] += answers
            graces.append(left_s)
        elif known is not None and not endpoint_is_stale(request, key):
            desired[key] = Desired(known.target, known.ready)
    conditions = (
        scheduled_condition(request, decided, fleet),
        ready_condition(request.resource, decided, serving.total(), rollout),
    )
    return ComposeResult(
        desired=desired,
        status=deployment_status(request.resource, decided, serving),
        conditions=conditions,
        ready=summarise(conditions, conditions[-1].message),
        events=placement_events(request, decided),
        requirements=requirements,
        requeue_after_s=_requeue_after_s(decided, graces),
    )


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
