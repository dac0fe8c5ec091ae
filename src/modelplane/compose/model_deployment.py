"""ModelDeployment: places replicas, and offers an endpoint for each that answers.

Every replica that should be is in the result every time; when something is missing that placement needs, what is there
stays and a condition says what is missing. A replica's endpoint exists only while the replica can serve.
"""

from collections import Counter

from modelplane.api.codec import decode, encode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER, DEPLOYMENT, REPLICA, REPLICA_INDEX
from modelplane.api.meta import ObjectMeta, PoolName
from modelplane.api.models import (
    CacheMount,
    Candidate,
    CelSelector,
    DeploymentReference,
    DeviceRequest,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelDeploymentStatusCluster,
    ModelEndpoint,
    ModelEndpointSpec,
    ModelReplica,
    ModelReplicaSpec,
    ReplicaEngine,
    ReplicaMember,
    ReplicaReference,
    Serving,
    StatusPlacement,
)
from modelplane.api.names import MAX_LEADER_WORKER_SET, make_name
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
    kept,
)
from modelplane.compose.inventory import fleet_of
from modelplane.compose.lowering import Engine, Lowered, Member, lower
from modelplane.compose.readiness import serves
from modelplane.dra.cel import CompileError, compile_selector
from modelplane.fleet.ask import Ask
from modelplane.fleet.matching import Matched, match
from modelplane.fleet.schedule import Candidate as ScheduleCandidate
from modelplane.fleet.schedule import Schedule, Verdict, schedule
from modelplane.fleet.snapshot import Cluster, Fleet, Holding

API_VERSION = "modelplane.ai/v1alpha1"
MAX_CANDIDATES = 32
_CLUSTERS, _REPLICAS = "clusters", "replicas"


def compose(request: ComposeRequest[ModelDeployment]) -> ComposeResult:
    deployment = request.resource
    requirements = {} if request.fleet else _requirements()
    lowered = lower(deployment.spec)
    fault = _selector_fault(lowered)
    if fault is not None:
        problem = fails(ConditionType.REPLICAS_SCHEDULED, Reason.INVALID_SELECTOR, fault)
        return _undecided(request, problem, requirements)
    fleet = request.fleet or _fleet(request)
    if fleet is None:
        waiting = unknown(ConditionType.REPLICAS_SCHEDULED, Reason.UNRESOLVED, "the fleet was not read yet")
        return _undecided(request, waiting, requirements)
    decided = schedule(_ask(deployment, lowered), fleet)
    return _decided(request, lowered, fleet, decided, requirements)


def _requirements() -> dict[str, Requirement]:
    return {
        _CLUSTERS: Requirement(API_VERSION, "InferenceCluster"),
        _REPLICAS: Requirement(API_VERSION, "ModelReplica"),
    }


def _fleet(request: ComposeRequest[ModelDeployment]) -> Fleet | None:
    clusters, replicas = request.fetched(_CLUSTERS), request.fetched(_REPLICAS)
    return None if clusters is None or replicas is None else fleet_of(clusters, replicas)


def _ask(deployment: ModelDeployment, lowered: Lowered) -> Ask:
    return Ask(
        deployment=deployment.metadata.key,
        replicas=deployment.spec.replicas,
        engines=tuple(engine.ask() for engine in lowered.engines),
        cluster_selector=lowered.cluster_selector,
    )


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
    """Nothing can be decided: what runs stays, and the status says why."""
    return ComposeResult(
        desired=kept(request), conditions=(problem,), ready=summarise([problem]), requirements=requirements
    )


def _decided(
    request: ComposeRequest[ModelDeployment],
    lowered: Lowered,
    fleet: Fleet,
    decided: Schedule,
    requirements: dict[str, Requirement],
) -> ComposeResult:
    desired: dict[str, Desired] = {}
    serving: Counter[str] = Counter()
    for holding in decided.placements:
        seen = request.observed.get(_replica_key(holding))
        ready = seen is not None and seen.ready
        replica = _replica(request.resource, lowered, holding, fleet.clusters.get(holding.cluster), seen)
        desired[_replica_key(holding)] = Desired(Local(encode(replica), ReadyWhen.READY), ready)
        endpoint = _endpoint(replica, seen) if seen is not None and serves(seen.manifest) else None
        if endpoint is not None:
            key = _endpoint_key(holding)
            known = request.observed.get(key)
            desired[key] = Desired(Local(encode(endpoint), ReadyWhen.READY), known is not None and known.ready)
            serving[holding.cluster] += 1
    conditions = (_scheduled(request.resource, decided, fleet), _serving(request.resource, decided, serving.total()))
    return ComposeResult(
        desired=desired,
        status=_status(request.resource, decided, serving),
        conditions=conditions,
        ready=summarise(conditions, conditions[-1].message),
        events=_events(request, decided),
        requirements=requirements,
    )


def _replica_key(holding: Holding) -> str:
    return f"replica-{holding.cluster}-{holding.index}"


def _endpoint_key(holding: Holding) -> str:
    return f"endpoint-{holding.cluster}-{holding.index}"


def _replica(
    deployment: ModelDeployment, lowered: Lowered, holding: Holding, cluster: Cluster | None, seen: Observed | None
) -> ModelReplica:
    metadata = deployment.metadata
    parts = (metadata.namespace, metadata.name, metadata.uid, holding.cluster, str(holding.index))
    name = make_name(metadata.name, *parts, limit=MAX_LEADER_WORKER_SET)
    known = _known_classes(seen)
    spec = ModelReplicaSpec(
        cluster_name=holding.cluster,
        index=holding.index,
        deployment=DeploymentReference(name=metadata.name, uid=metadata.uid),
        priority=deployment.spec.priority,
        serving=Serving(mode=lowered.mode),
        tolerations=lowered.tolerations,
        caches=tuple(CacheMount(name=cache, mount_path=path) for cache, path in lowered.caches),
        engines=tuple(_engine(engine, holding, cluster, known) for engine in lowered.engines),
    )
    labels = {**lowered.labels, **_labels(metadata, holding)}
    return ModelReplica(metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels=labels), spec=spec)


def _labels(metadata: ObjectMeta, holding: Holding) -> dict[str, str]:
    return {DEPLOYMENT: metadata.name, CLUSTER: holding.cluster, REPLICA_INDEX: str(holding.index)}


def _engine(
    engine: Engine, holding: Holding, cluster: Cluster | None, known: dict[tuple[str, str], str]
) -> ReplicaEngine:
    pool = holding.pools[engine.name]
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
                node_pool_name=pool,
                device_requests=_device_requests(engine, member, pool, cluster, known),
                template=member.template,
            )
            for member in engine.members
        ),
    )


def _known_classes(seen: Observed | None) -> dict[tuple[str, str], str]:
    """DeviceClass of each request as it was rendered last: what to keep while the pool cannot be looked at."""
    if seen is None:
        return {}
    spec = decode(ModelReplica, seen.manifest).spec
    return {
        (engine.name, wanted.name): wanted.device_class_name
        for engine in spec.engines
        for member in engine.members
        for wanted in member.device_requests
    }


def _device_requests(
    engine: Engine, member: Member, pool: PoolName, cluster: Cluster | None, known: dict[tuple[str, str], str]
) -> tuple[DeviceRequest, ...]:
    kinds = next((found.kinds for found in cluster.pools if found.name == pool), ()) if cluster else ()
    matched = match(member.requests, kinds)
    classes = dict(matched.classes) if isinstance(matched, Matched) else {}
    return tuple(
        DeviceRequest(
            name=wanted.name,
            device_class_name=found,
            count=wanted.count,
            selectors=tuple(CelSelector(cel=text) for text in wanted.selectors),
        )
        for wanted in member.requests
        if (found := classes.get(wanted.name) or known.get((engine.name, wanted.name)))
    )


def _endpoint(replica: ModelReplica, seen: Observed | None) -> ModelEndpoint | None:
    address = decode(ModelReplica, seen.manifest).status.address if seen else None
    if address is None:
        return None
    name, cluster = replica.metadata.name, replica.spec.cluster_name
    labels = {**replica.metadata.labels, REPLICA: name}
    return ModelEndpoint(
        metadata=ObjectMeta(name=name, namespace=replica.metadata.namespace, labels=labels),
        spec=ModelEndpointSpec(url=address, replica=ReplicaReference(name=name, cluster_name=cluster)),
    )


def _scheduled(deployment: ModelDeployment, decided: Schedule, fleet: Fleet) -> Condition:
    wanted, placed = deployment.spec.replicas, len(decided.placements)
    if decided.pending == 0:
        return holds(ConditionType.REPLICAS_SCHEDULED, Reason.ALL_PLACED, f"{placed} of {wanted} replicas placed")
    considered = [found for found in decided.trace if found.filter != "ClusterSelector" and found.pool is None]
    if not considered and not any(found.pool for found in decided.trace):
        message = f"{placed} of {wanted} replicas placed: none of {len(fleet.clusters)} clusters is selected"
        return fails(ConditionType.REPLICAS_SCHEDULED, Reason.NO_CLUSTERS, message)
    message = f"{placed} of {wanted} replicas placed; {_shortfall(decided)}"
    return fails(ConditionType.REPLICAS_SCHEDULED, Reason.INSUFFICIENT_CAPACITY, message)


def _shortfall(decided: Schedule) -> str:
    refusals = [f"{_place(found)}: {found.reason}" for found in decided.trace if found.verdict is Verdict.REFUSED]
    shown, more = refusals[:3], len(refusals) - 3
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _place(found: ScheduleCandidate) -> str:
    return f"{found.cluster}/{found.pool}" if found.pool else found.cluster


def _serving(deployment: ModelDeployment, decided: Schedule, serving: int) -> Condition:
    wanted = deployment.spec.replicas
    message = f"{serving} of {wanted} replicas answer requests"
    if wanted == 0:
        return holds(ConditionType.REPLICAS_READY, Reason.SCALED_TO_ZERO, "no replica was asked for")
    if serving >= wanted:
        return holds(ConditionType.REPLICAS_READY, Reason.ALL_READY, message)
    reason = Reason.NOT_PLACED if decided.pending and serving == len(decided.placements) else Reason.STARTING
    return fails(ConditionType.REPLICAS_READY, reason, message)


def _status(deployment: ModelDeployment, decided: Schedule, serving: Counter[str]) -> ModelDeploymentStatus:
    placed = Counter[str](holding.cluster for holding in decided.placements)
    shown = decided.trace[:MAX_CANDIDATES]
    candidates = tuple(
        Candidate(
            cluster=found.cluster,
            pool=found.pool,
            verdict=found.verdict.value,
            filter_=found.filter or None,
            reason=found.reason or None,
        )
        for found in shown
    )
    where = ", ".join(f"{count} on {cluster}" for cluster, count in sorted(placed.items())) or "none placed"
    return ModelDeploymentStatus(
        replicas=len(decided.placements),
        ready_replicas=serving.total(),
        selector=f"{DEPLOYMENT}={deployment.metadata.name}",
        clusters=tuple(
            ModelDeploymentStatusCluster(name=name, replicas=count, ready=serving[name])
            for name, count in sorted(placed.items())
        ),
        placement=StatusPlacement(
            summary=where if not decided.pending else f"{where}; {decided.pending} wait for room",
            candidates=candidates,
            omitted=len(decided.trace) - len(shown) or None,
        ),
    )


def _events(request: ComposeRequest[ModelDeployment], decided: Schedule) -> tuple[Event, ...]:
    placed = [
        Event(EventType.NORMAL, Reason.PLACED, f"replica {holding.index} goes to cluster {holding.cluster}")
        for holding in decided.placements
        if _replica_key(holding) not in request.observed
    ]
    removed = [
        Event(EventType.NORMAL, Reason.REMOVED, f"replica {holding.index} leaves cluster {holding.cluster}")
        for holding in decided.dropped
        if _replica_key(holding) in request.observed
    ]
    return (*placed, *removed)
