"""The fleet at a glance: what every cluster, deployment, cache and service says of itself, as rows.

One read model for `modelplane status` and for the page: both show it, neither computes anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelDeployment, ModelReplica, ModelService, Taint
from modelplane.api.objects import Manifest
from modelplane.views.caches import CacheRow, cache_rows
from modelplane.views.health import ObjectHealth, cluster_health, object_health, reported_health


@dataclass(frozen=True, slots=True)
class ClusterRow:
    name: str
    health: ObjectHealth
    nodes: int
    free_devices: int
    replicas: int
    pools: tuple[str, ...]
    lost_devices: int = 0
    """Those that nobody holds on a cluster that does not answer."""
    cordoned: bool = False
    taints: tuple[str, ...] = ()
    """As kubectl writes them: `key=value:effect`."""


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    namespace: str
    name: str
    health: ObjectHealth
    wanted: int
    placed: int
    serving: int
    placement: str


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    namespace: str
    name: str
    health: ObjectHealth
    deployment: str
    cluster: str


@dataclass(frozen=True, slots=True)
class ServiceRow:
    namespace: str
    name: str
    health: ObjectHealth
    address: str
    endpoints: int
    serving: int


@dataclass(frozen=True, slots=True)
class Overview:
    clusters: tuple[ClusterRow, ...] = ()
    deployments: tuple[DeploymentRow, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()
    services: tuple[ServiceRow, ...] = ()
    caches: tuple[CacheRow, ...] = ()


def overview(
    *,
    clusters: Iterable[Manifest],
    deployments: Iterable[Manifest],
    replicas: Iterable[Manifest],
    services: Iterable[Manifest],
    caches: Iterable[Manifest] = (),
) -> Overview:
    return Overview(
        clusters=tuple(_cluster(decode(InferenceCluster, item)) for item in clusters),
        deployments=tuple(_deployment(decode(ModelDeployment, item)) for item in deployments),
        replicas=tuple(_replica(decode(ModelReplica, item)) for item in replicas),
        services=tuple(_service(decode(ModelService, item)) for item in services),
        caches=cache_rows(caches),
    )


def _cluster(item: InferenceCluster) -> ClusterRow:
    status = item.status
    return ClusterRow(
        name=item.metadata.name,
        health=cluster_health(item),
        nodes=status.nodes or 0,
        free_devices=status.free_devices or 0,
        replicas=status.replicas or 0,
        pools=tuple(pool.name for pool in status.gpu_pools),
        lost_devices=status.lost_devices or 0,
        cordoned=item.spec.cordoned,
        taints=tuple(_taint(taint) for taint in item.spec.taints),
    )


def _taint(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _deployment(item: ModelDeployment) -> DeploymentRow:
    status = item.status
    return DeploymentRow(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        health=reported_health(item.metadata, status),
        wanted=item.spec.replicas,
        placed=status.replicas or 0,
        serving=status.ready_replicas or 0,
        placement=(status.placement.summary if status.placement else None) or "",
    )


def _replica(item: ModelReplica) -> ReplicaRow:
    return ReplicaRow(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        health=reported_health(item.metadata, item.status),
        deployment=item.spec.deployment.name if item.spec.deployment else "",
        cluster=item.spec.cluster_name,
    )


def _service(item: ModelService) -> ServiceRow:
    counts = item.status.endpoints
    return ServiceRow(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        health=object_health(item.metadata, item.status.conditions),
        address=item.status.address or "",
        endpoints=(counts.matched if counts else None) or 0,
        serving=(counts.ready if counts else None) or 0,
    )
