"""ModelDeployment: places replicas, and composes a ModelEndpoint for each replica that serves.

The result has every replica every time. An observed replica that is missing from the list of replicas is placed where
it was composed. When an input of placement is missing or a replica cannot be read, the observed replicas stay and a
condition names the input. A ModelEndpoint is kept for ENDPOINT_GRACE_S after its ModelReplica stops serving.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from modelplane.api.codec import encode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER, DEPLOYMENT, REPLICA, REPLICA_INDEX
from modelplane.api.meta import ClusterName, ObjectMeta
from modelplane.api.models import (
    CacheMount,
    Candidate,
    CelSelector,
    DeploymentReference,
    DeviceRequest,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelDeploymentStatusCluster,
    ModelReplica,
    ModelReplicaSpec,
    Preemption,
    ReplicaEngine,
    ReplicaMember,
    Serving,
    StatusPlacement,
)
from modelplane.api.names import MAX_LEADER_WORKER_SET, make_name
from modelplane.api.objects import API_VERSION, Manifest, manifest, name_of, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Event,
    EventType,
    Local,
    Observed,
    ReadyWhen,
    Requirement,
    keep_observed,
)
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.lowering import EngineSpec, Lowered, lower
from modelplane.compose.observed_replicas import (
    ENDPOINT_PREFIX,
    REPLICA_PREFIX,
    composition_key,
    decode_observed,
    unplaced,
    with_observed,
    without_contradicted,
)
from modelplane.compose.placement_request import placement_request
from modelplane.compose.readiness import SERVING, is_denied, serves, stopped_at
from modelplane.compose.rolling_update import Rollout, roll
from modelplane.k8s.cel import CompileError, compile_selector
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import Schedule, schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import TraceCandidate as Found
from modelplane.placement.trace import summarise as summarise_refusals
from modelplane.placement.values import MemberAssignment, PlacedReplica, PoolAssignment

MAX_CANDIDATES = 32
MAX_REASON = 512
MAX_SUMMARY = 1024
_CLUSTERS, _REPLICAS, _CACHES = "clusters", "replicas", "caches"
_SELECTING = frozenset({"ClusterSelector", "Affinity"})
_PREEMPTION_REQUEUE_S = 1.0
ENDPOINT_GRACE_S = 3.0
"""How long a ModelEndpoint is kept after its ModelReplica stops serving: the conditions that a host shows may be stale,
and to delete and recreate an endpoint costs clients many seconds, where the gateway retries another replica at once."""
_CLOCK_SKEW_S = 1.0


def compose(request: ComposeRequest[ModelDeployment]) -> ComposeResult:
    deployment = request.resource
    requirements = {} if request.fleet else _requirements(deployment)
    lowered = lower(deployment.spec)
    fault = _selector_fault(lowered)
    if fault is not None:
        problem = fails(ConditionType.REPLICAS_SCHEDULED, Reason.INVALID_SELECTOR, fault)
        return _undecided(request, problem, requirements)
    fleet = request.fleet or _fleet(request)
    if fleet is None:
        waiting = unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, "the fleet is not read yet")
        return _undecided(request, waiting, requirements)
    fleet = with_observed(fleet, deployment.metadata.key, request.observed, request.decode_replica)
    decided = schedule(placement_request(deployment, lowered), fleet, request.now, profile=request.profile)
    return _decided(request, lowered, fleet, decided, requirements)


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


def _selector_fault(lowered: Lowered) -> str | None:
    for engine in lowered.engines:
        for member in engine.members:
            for wanted in member.requests:
                for text in wanted.selectors:
                    try:
                        compile_selector(text, stored=True)
                    except (CompileError, InputError) as error:
                        return f"engine {engine.name}, device request {wanted.name}: {error}"
    return None


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


def endpoint_is_stale(request: ComposeRequest[ModelDeployment], key: str) -> bool:
    """Whether the key is that of an endpoint whose replica does not serve, nor did within ENDPOINT_GRACE_S.

    A replica that lost its status does not say that it stopped.
    """
    if not key.startswith(ENDPOINT_PREFIX):
        return False
    replica = request.observed.get(REPLICA_PREFIX + key.removeprefix(ENDPOINT_PREFIX))
    return replica is None or not (
        serves(replica.manifest) or _grace_left_s(replica, request.now) or not is_denied(replica.manifest, SERVING)
    )


def _grace_left_s(replica: Observed, now: float) -> float:
    """Seconds until the endpoint of a replica that stopped serving is stale; 0: it is."""
    stopped = stopped_at(replica.manifest)
    if stopped is None or not now or stopped > now + _CLOCK_SKEW_S:
        return 0.0
    return max(0.0, stopped + ENDPOINT_GRACE_S - now)


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
    rollout, targets = _targets(request, lowered, decided)
    for placement in decided.placements:
        placed = placement.replica
        seen = request.observed.get(_replica_key(placed))
        target = targets.get(_replica_key(placed))
        if target is None:
            continue
        desired[_replica_key(placed)] = Desired(target, seen is not None and seen.ready)
        key = _endpoint_key(placed)
        known = request.observed.get(key)
        answers = seen is not None and serves(seen.manifest)
        grace_left_s = 0.0 if answers or seen is None or known is None else _grace_left_s(seen, request.now)
        endpoint = _endpoint(target, placed.cluster, seen) if seen is not None and (answers or grace_left_s) else None
        if endpoint is not None:
            desired[key] = Desired(Local(endpoint, ReadyWhen.READY), known is not None and known.ready)
            serving[placed.cluster] += answers
            graces.append(grace_left_s)
        elif known is not None and not endpoint_is_stale(request, key):
            desired[key] = Desired(known.target, known.ready)
    conditions = (
        _scheduled(request, decided, fleet),
        _serving(request.resource, decided, serving.total(), rollout),
    )
    return ComposeResult(
        desired=desired,
        status=_status(request.resource, decided, serving),
        conditions=conditions,
        ready=summarise(conditions, conditions[-1].message),
        events=_events(request, decided),
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


def _replica_key(placed: PlacedReplica) -> str:
    return composition_key(placed.cluster, placed.index)


def _endpoint_key(placed: PlacedReplica) -> str:
    return f"{ENDPOINT_PREFIX}{placed.cluster}-{placed.index}"


def _targets(
    request: ComposeRequest[ModelDeployment], lowered: Lowered, decided: Schedule
) -> tuple[Rollout, dict[str, Local]]:
    """The desired replicas, as far as they are known.

    One that moves is left unchanged: its pool may not fit the new spec. So is one that cannot be read: its pools are
    unknown.
    """
    moving: dict[str, Local] = {}
    wanted: dict[str, ModelReplica] = {}
    seen: dict[str, Manifest] = {}
    for placement in decided.placements:
        key = _replica_key(placement.replica)
        known = request.observed.get(key)
        unread = bool(placement.replica.fault)
        if placement.decision is ReplicaDecision.MOVING or unread:
            if known is not None and isinstance(known.target, Local):
                moving[key] = known.target
                continue
            if unread:
                continue
        wanted[key] = _replica(request.resource, lowered, placement.replica)
        if known is not None:
            seen[wanted[key].metadata.name] = known.manifest
    rollout = roll(tuple(wanted.values()), seen, lambda item: decode_observed(item, request.decode_replica))
    rolled = {
        key: Local(encode(replica), ReadyWhen.READY) for key, replica in zip(wanted, rollout.replicas, strict=True)
    }
    return rollout, {**moving, **rolled}


def _replica(deployment: ModelDeployment, lowered: Lowered, placed: PlacedReplica) -> ModelReplica:
    metadata = deployment.metadata
    parts = (metadata.namespace, metadata.name, metadata.uid, placed.cluster, str(placed.index))
    name = make_name(metadata.name, *parts, limit=MAX_LEADER_WORKER_SET)
    assignments = {assignment.engine: assignment for assignment in placed.assignments}
    spec = ModelReplicaSpec(
        cluster_name=placed.cluster,
        index=placed.index,
        deployment=DeploymentReference(name=metadata.name, uid=metadata.uid),
        priority=deployment.spec.priority,
        protected=deployment.spec.protected,
        preempts=placed.preempts,
        serving=Serving(mode=lowered.mode),
        tolerations=lowered.tolerations,
        caches=tuple(CacheMount(name=cache, mount_path=path) for cache, path in lowered.caches),
        engines=tuple(
            _engine(engine, assignments[engine.name]) for engine in lowered.engines if engine.name in assignments
        ),
    )
    labels = {**lowered.labels, **_labels(metadata, placed)}
    return ModelReplica(metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels=labels), spec=spec)


def _labels(metadata: ObjectMeta, placed: PlacedReplica) -> dict[str, str]:
    return {DEPLOYMENT: metadata.name, CLUSTER: placed.cluster, REPLICA_INDEX: str(placed.index)}


def _engine(engine: EngineSpec, assignment: PoolAssignment) -> ReplicaEngine:
    return ReplicaEngine(
        name=engine.name,
        phase=engine.phase,
        copies=engine.copies,
        type_=engine.type,
        coordination=engine.coordination,
        topology=engine.topology,
        members=tuple(
            ReplicaMember(
                role=member.role,
                nodes=member.nodes,
                node_pool_name=assignment.pool,
                device_requests=_device_requests(assignment.members[at]) if at < len(assignment.members) else (),
                template=member.template,
            )
            for at, member in enumerate(engine.members)
        ),
    )


def _device_requests(member: MemberAssignment) -> tuple[DeviceRequest, ...]:
    return tuple(
        DeviceRequest(
            name=claim.name,
            device_class_name=claim.device_class,
            count=claim.count,
            selectors=tuple(CelSelector(cel=text) for text in claim.selectors),
        )
        for claim in member.claims
        if claim.device_class is not None
    )


def _endpoint(target: Local, cluster: ClusterName, seen: Observed) -> Manifest | None:
    address = text_at(seen.manifest, "status", "address")
    if not address:
        return None
    name, labels = name_of(target.manifest), value_at(target.manifest, "metadata", "labels")
    return manifest(
        API_VERSION,
        "ModelEndpoint",
        name,
        namespace=text_at(target.manifest, "metadata", "namespace"),
        labels={**(labels if isinstance(labels, Mapping) else {}), REPLICA: name},
        spec={"url": address, "replica": {"name": name, "clusterName": cluster}},
    )


def _scheduled(request: ComposeRequest[ModelDeployment], decided: Schedule, fleet: Fleet) -> Condition:
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
    refusals = list(decided.trace.refusals())
    if refusals and all(refusal.filter in _SELECTING for refusal, _ in refusals):
        message = f"{message}: 0 of {len(fleet)} clusters match the selectors"
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.NO_CLUSTERS, message[:MAX_SUMMARY])
    why = summarise_refusals(refusals) or f"the fleet has {len(fleet)} clusters"
    return fails(ConditionType.REPLICAS_SCHEDULED, Reason.INSUFFICIENT_CAPACITY, f"{message}; {why}"[:MAX_SUMMARY])


def _unread(request: ComposeRequest[ModelDeployment], decided: Schedule) -> str:
    """Replicas that cannot be read and stay as they are; empty where all can be."""
    found = [(_replica_key(item.replica), item.replica.fault) for item in decided.placements if item.replica.fault]
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
    stuck = decided.unplaced - decided.pending
    whys = [placement.why for placement in decided.placements if placement.decision is ReplicaDecision.MOVING]
    if stuck <= 0 or not whys:
        return ""
    return f", {stuck} of them must move and no other pool has capacity ({whys[0]})"


def _serving(deployment: ModelDeployment, decided: Schedule, serving: int, rollout: Rollout) -> Condition:
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


def _status(deployment: ModelDeployment, decided: Schedule, serving: Counter[str]) -> ModelDeploymentStatus:
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


def _events(request: ComposeRequest[ModelDeployment], decided: Schedule) -> tuple[Event, ...]:
    placed = [
        Event(EventType.NORMAL, Reason.PLACED, f"replica {placed.index} is placed on cluster {placed.cluster}")
        for placed in (placement.replica for placement in decided.placements)
        if _replica_key(placed) not in request.observed
    ]
    removed = [
        Event(
            EventType.NORMAL,
            Reason.REMOVED,
            f"replica {gone.replica.index} is removed from cluster {gone.replica.cluster}: {gone.why}",
        )
        for gone in decided.dropped
        if _replica_key(gone.replica) in request.observed
    ]
    return (*placed, *removed)
