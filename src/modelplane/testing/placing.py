"""A replica of a deployment as placement would write it, for tests and measurements of what comes after."""

from collections.abc import Mapping

from modelplane.api.labels import CLUSTER, DEPLOYMENT, REPLICA_INDEX
from modelplane.api.meta import ObjectMeta
from modelplane.api.models import (
    CelSelector,
    DeploymentReference,
    DeviceRequest,
    MatchAttribute,
    ModelDeployment,
    ModelReplica,
    ModelReplicaSpec,
    ReplicaEngine,
    ReplicaMember,
    Serving,
)
from modelplane.api.names import MAX_LEADER_WORKER_SET, make_name
from modelplane.compose.lowering import EngineSpec, MemberSpec, lower
from modelplane.compose.replica_spec import plain_mounts

POOL = "gpu"
DEVICE_CLASS = "gpu.nvidia.com"
NETWORK_CLASS = "rdma.example.com"
"""The device class of requests named nic."""


def placed(
    deployment: ModelDeployment, cluster: str, *, pools: Mapping[str, str] | None = None, index: int = 0
) -> ModelReplica:
    """The replica on `cluster`, each engine on the pool named for it or on `gpu`."""
    lowered, metadata = lower(deployment.spec), deployment.metadata
    parts = (metadata.namespace, metadata.name, metadata.uid, cluster, str(index))
    labels = {**lowered.labels, DEPLOYMENT: metadata.name, CLUSTER: cluster, REPLICA_INDEX: str(index)}
    name = make_name(metadata.name, *parts, limit=MAX_LEADER_WORKER_SET)
    return ModelReplica(
        metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels=labels),
        spec=ModelReplicaSpec(
            cluster_name=cluster,
            index=index,
            deployment=DeploymentReference(name=metadata.name, uid=metadata.uid),
            priority=deployment.spec.priority,
            serving=Serving(mode=lowered.mode),
            tolerations=lowered.tolerations,
            caches=plain_mounts(lowered),
            engines=tuple(_engine(engine, (pools or {}).get(engine.name, POOL)) for engine in lowered.engines),
        ),
    )


def _engine(engine: EngineSpec, pool: str) -> ReplicaEngine:
    return ReplicaEngine(
        name=engine.name,
        phase=engine.phase,
        copies=engine.copies,
        type_=engine.type,
        coordination=engine.coordination,
        topology=engine.topology,
        server=engine.server,
        members=tuple(_member(member, pool) for member in engine.members),
    )


def _member(member: MemberSpec, pool: str) -> ReplicaMember:
    requests = tuple(
        DeviceRequest(
            name=wanted.name,
            device_class_name=NETWORK_CLASS if wanted.name == "nic" else DEVICE_CLASS,
            count=wanted.count,
            selectors=tuple(CelSelector(cel=text) for text in wanted.selectors),
        )
        for wanted in member.requests
    )
    matches = (MatchAttribute(attribute=match.attribute, requests=match.requests) for match in member.matches)
    return ReplicaMember(
        role=member.role,
        nodes=member.nodes,
        node_pool_name=pool,
        match_attributes=tuple(matches),
        device_requests=requests,
        template=member.template,
    )
