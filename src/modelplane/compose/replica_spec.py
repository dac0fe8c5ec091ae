"""A ModelReplica as placement writes it: what the deployment says, on the pools of its place."""

from modelplane.api.labels import CLUSTER, DEPLOYMENT, REPLICA_INDEX
from modelplane.api.meta import ObjectMeta
from modelplane.api.models import (
    CacheMount,
    CelSelector,
    DeploymentReference,
    DeviceRequest,
    MatchAttribute,
    ModelDeployment,
    ModelReplica,
    ModelReplicaSpec,
    ReplicaEngine,
    ReplicaMember,
    RequestedCapacity,
    Serving,
)
from modelplane.api.names import MAX_LEADER_WORKER_SET, make_name
from modelplane.compose.device_roots import root_requests
from modelplane.compose.lowering import EngineSpec, Lowered, MemberSpec
from modelplane.compose.node_share import node_share
from modelplane.placement.matching import Claim
from modelplane.placement.values import Cluster, PlacedReplica, Pool, PoolAssignment


def make_replica(
    deployment: ModelDeployment,
    lowered: Lowered,
    placed: PlacedReplica,
    caches: tuple[CacheMount, ...] | None = None,
    cluster: Cluster | None = None,
) -> ModelReplica:
    """`caches` as they are mounted on its cluster; left out, as the deployment has them."""
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
        caches=plain_mounts(lowered) if caches is None else caches,
        warm_up=deployment.spec.warm_up,
        engines=tuple(
            _engine(engine, assignments[engine.name], cluster)
            for engine in lowered.engines
            if engine.name in assignments
        ),
    )
    labels = {**lowered.labels, **_labels(metadata, placed)}
    return ModelReplica(metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels=labels), spec=spec)


def plain_mounts(lowered: Lowered) -> tuple[CacheMount, ...]:
    return tuple(CacheMount(name=cache.name, mount_path=cache.mount_path) for cache in lowered.caches)


def _labels(metadata: ObjectMeta, placed: PlacedReplica) -> dict[str, str]:
    return {DEPLOYMENT: metadata.name, CLUSTER: placed.cluster, REPLICA_INDEX: str(placed.index)}


def _engine(engine: EngineSpec, assignment: PoolAssignment, cluster: Cluster | None) -> ReplicaEngine:
    pool = cluster.pool(assignment.pool) if cluster is not None else None
    return ReplicaEngine(
        name=engine.name,
        phase=engine.phase,
        copies=engine.copies,
        type_=engine.type,
        coordination=engine.coordination,
        topology=engine.topology,
        server=engine.server,
        members=tuple(
            _member(
                engine,
                member,
                assignment.members[at].claims if at < len(assignment.members) else (),
                assignment.pool,
                pool,
            )
            for at, member in enumerate(engine.members)
        ),
    )


def _member(
    engine: EngineSpec, member: MemberSpec, claims: tuple[Claim, ...], pool_name: str, pool: Pool | None
) -> ReplicaMember:
    networked = engine.phase is not None or member.role != "Standalone"
    return ReplicaMember(
        role=member.role,
        nodes=member.nodes,
        node_pool_name=pool_name,
        match_attributes=_matches(member, claims),
        node_share=node_share(pool, claims),
        root_requests=root_requests(pool, claims, member.matches, networked=networked),
        device_requests=_device_requests(claims),
        template=member.template,
    )


def _matches(member: MemberSpec, claims: tuple[Claim, ...]) -> tuple[MatchAttribute, ...]:
    """Those of a pod that claims something: a claim without devices has no constraints."""
    if not any(claim.device_class is not None for claim in claims):
        return ()
    return tuple(MatchAttribute(attribute=each.attribute, requests=each.requests) for each in member.matches)


def _device_requests(claims: tuple[Claim, ...]) -> tuple[DeviceRequest, ...]:
    return tuple(
        DeviceRequest(
            name=claim.name,
            device_class_name=claim.device_class,
            count=claim.count,
            selectors=tuple(CelSelector(cel=text) for text in claim.selectors),
            capacity=RequestedCapacity(requests=dict(claim.capacity)) if claim.capacity else None,
        )
        for claim in claims
        if claim.device_class is not None
    )
