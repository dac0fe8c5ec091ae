"""The fleet at a glance: what every cluster, deployment, cache and service says of itself, as rows.

One read model for `modelplane status` and for the page: both show it, neither computes anything. An object that cannot
be read, as one of another release, is a row that says so, and hides no other.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InvalidObject
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.models import InferenceCluster, ModelDeployment, ModelReplica, ModelService, Taint
from modelplane.api.objects import Manifest, labels_of, name_of, namespace_of, text_at
from modelplane.views.caches import CacheRow, cache_rows
from modelplane.views.health import ObjectHealth, cluster_health, object_health, reported_health, unreadable

_T = TypeVar("_T", bound=msgspec.Struct)
_R = TypeVar("_R")


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
        clusters=tuple(_rows(InferenceCluster, clusters, _cluster, _unread_cluster)),
        deployments=tuple(_rows(ModelDeployment, deployments, _deployment, _unread_deployment)),
        replicas=tuple(_rows(ModelReplica, replicas, _replica, _unread_replica)),
        services=tuple(_rows(ModelService, services, _service, _unread_service)),
        caches=cache_rows(caches),
    )


def _rows(
    kind: type[_T], items: Iterable[Manifest], row: Callable[[_T], _R], unread: Callable[[Manifest, ObjectHealth], _R]
) -> Iterator[_R]:
    for item in items:
        try:
            yield row(decode(kind, item))
        except InvalidObject as error:
            yield unread(item, unreadable(error))


def _unread_cluster(item: Manifest, health: ObjectHealth) -> ClusterRow:
    return ClusterRow(name=name_of(item), health=health, nodes=0, free_devices=0, replicas=0, pools=())


def _unread_deployment(item: Manifest, health: ObjectHealth) -> DeploymentRow:
    return DeploymentRow(namespace_of(item), name_of(item), health, wanted=0, placed=0, serving=0, placement="")


def _unread_replica(item: Manifest, health: ObjectHealth) -> ReplicaRow:
    where = text_at(item, "spec", "clusterName")
    return ReplicaRow(namespace_of(item), name_of(item), health, labels_of(item).get(DEPLOYMENT, ""), where)


def _unread_service(item: Manifest, health: ObjectHealth) -> ServiceRow:
    return ServiceRow(namespace_of(item), name_of(item), health, address="", endpoints=0, serving=0)


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
