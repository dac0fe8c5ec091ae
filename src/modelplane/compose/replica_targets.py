"""The ModelReplicas of a ModelDeployment as they are desired, each with the pools that placement assigned."""

from modelplane.api.codec import encode
from modelplane.api.labels import CLUSTER, DEPLOYMENT, REPLICA_INDEX, REVISION
from modelplane.api.meta import ObjectMeta
from modelplane.api.models import (
    CacheMount,
    CelSelector,
    DeploymentReference,
    DeviceRequest,
    ModelDeployment,
    ModelReplica,
    ModelReplicaSpec,
    ReplicaEngine,
    ReplicaMember,
    Serving,
)
from modelplane.api.names import MAX_LEADER_WORKER_SET, make_name
from modelplane.api.objects import Manifest
from modelplane.compose.contract import ComposeRequest, Local, ReadyWhen
from modelplane.compose.lowering import EngineSpec, Lowered
from modelplane.compose.observed_replicas import composition_key
from modelplane.compose.rolling_update import Rollout, roll
from modelplane.compose.surge import rollout_rules
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import Schedule
from modelplane.placement.values import MemberAssignment, PlacedReplica, PoolAssignment


def replica_key(placed: PlacedReplica) -> str:
    return composition_key(placed.cluster, placed.index)


def replica_targets(
    request: ComposeRequest[ModelDeployment], lowered: Lowered, decided: Schedule
) -> tuple[Rollout, dict[str, Local]]:
    """The desired replicas, as far as they are known.

    One that moves is left unchanged: its pool may not fit the new spec. So is one that cannot be read: its pools are
    unknown.
    """
    moving: dict[str, Local] = {}
    wanted: dict[str, ModelReplica] = {}
    seen = dict[str, Manifest]()
    for placement in decided.placements:
        key = replica_key(placement.replica)
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
    rollout = roll(
        tuple(wanted.values()), seen, request.decode_replica, rollout_rules(request, lowered.labels.get(REVISION, ""))
    )
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
