"""The Fleet snapshot of placement, made from InferenceClusters, ModelReplicas and ModelCaches.

A cluster counts by its status, not by its spec. Pools and devices with equal descriptions are interned as one value, so
the work grows with the number of different descriptions and not with the fleet.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName, Key, ObjectMeta, PoolName, Uid
from modelplane.api.models import (
    BoundPod,
    DeploymentReference,
    GpuPool,
    InferenceCluster,
    ModelCache,
    ModelReplica,
    NodePool,
    Quota,
    Scheduling,
)
from modelplane.api.objects import Manifest
from modelplane.api.queues import MAX_QUEUES, is_per_namespace, queue_template
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.cache_info import cache_of
from modelplane.compose.drains import ClusterTaints, cluster_taints
from modelplane.compose.placed_replica import placed_replica
from modelplane.compose.pool_hardware import pool_of
from modelplane.compose.render_check import describe_rendering
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import (
    BoundPods,
    CacheInfo,
    Cluster,
    NamespaceQueues,
    Packing,
    PlacedReplica,
    PlacementTaint,
    Pool,
    QueueInfo,
)

_MAX_POOLS = 16_384
_NO_TAINTS = ClusterTaints((), {})
_encode = msgspec.json.Encoder().encode
_PARTS = frozenset({ConditionType.CLUSTER_READY.value, ConditionType.GATEWAY_READY.value})
_NOT_FAILURES = frozenset(
    reason.value
    for reason in (
        *(Reason.CLASS_MISSING, Reason.CLASS_INVALID, Reason.UNRESOLVED, Reason.DELETING),
        Reason.AGENT_UNKNOWN,  # one hub is silent for every cluster behind it
    )
)


def cluster_of(resource: InferenceCluster, manifest: Manifest | None = None) -> Cluster:
    """A cluster as placement sees it. The manifest is not needed; hosts that have it may pass it."""
    del manifest
    spec, status, metadata = resource.spec, resource.status, resource.metadata
    ready, since = _readiness(resource)
    shown = _described(_encode((status.gpu_pools, spec.node_pools, spec.scheduling, spec.quotas)))
    taints = cluster_taints(resource) if spec.taints or spec.drain or shown.tainted else _NO_TAINTS
    return Cluster(
        name=ClusterName(metadata.name),
        pools=_with_taints(shown.pools, taints.pools) if taints.pools else shown.pools,
        unpublished_pools=shown.unpublished_pools,
        hardware_known=shown.hardware_known,
        labels=metadata.labels,
        placement_labels=_placement_labels(resource),
        ready=ready,
        unready_since=since,
        created=None if ready else epoch_s(metadata.creation_timestamp),
        cordoned=spec.cordoned,
        deletion=_deletion(resource),
        taints=taints.cluster,
        packing=shown.packing,
        priorities=shown.priorities,
        default_priority=spec.scheduling.default_priority,
        quotas=shown.quotas,
        queue=_queue(resource, shown.queue_template) if shown.queue_template is not None else None,
        namespace_queues=_namespace_queues(resource, shown.queue_template)
        if shown.queue_template is not None
        else None,
        bound=tuple(_bound(pods) for pods in status.bound_pods) if status.bound_pods else (),
        faulty=tuple((each.replica, each.message) for each in status.faulty_replicas),
        rendering=describe_rendering(resource),
    )


class _Described(msgspec.Struct, frozen=True, eq=False):
    """What clusters have in common that are declared alike, and whose pools are used alike."""

    pools: tuple[Pool, ...]
    unpublished_pools: tuple[PoolName, ...]
    hardware_known: bool
    tainted: bool
    """Whether a pool has taints or is drained."""
    packing: Packing
    priorities: tuple[tuple[str, int], ...]
    quotas: tuple[tuple[str, int], ...]
    queue_template: str | None


@lru_cache(maxsize=_MAX_POOLS)
def _described(description: bytes) -> _Described:
    """Encoding the key is cheaper than computing the value, and most clusters of a fleet are alike."""
    published, declared, scheduling, quotas = msgspec.json.decode(
        description, type=tuple[tuple[GpuPool, ...], tuple[NodePool, ...], Scheduling, tuple[Quota, ...]]
    )
    # A class has a device at least, so a pool without one is not read yet.
    shown = {pool.name: pool for pool in published if pool.devices}
    by_name = {pool.name: pool for pool in declared}
    return _Described(
        pools=tuple(pool_of(pool, by_name.get(pool.name)) for pool in shown.values()),
        unpublished_pools=tuple(PoolName(pool.name) for pool in declared if pool.name not in shown),
        hardware_known=all(pool.name in shown and _is_of_class(shown[pool.name], pool) for pool in declared),
        tainted=any(pool.taints or pool.drain is not None for pool in declared),
        packing=Packing.BIN_PACK if scheduling.packing == "BinPack" else Packing.ANY,
        priorities=tuple((priority.name, priority.value) for priority in scheduling.priorities),
        quotas=tuple((quota.namespace, quota.devices) for quota in quotas),
        queue_template=queue_template(scheduling),
    )


def _is_of_class(shown: GpuPool, declared: NodePool) -> bool:
    return shown.class_name in {None, declared.class_name}


def _placement_labels(resource: InferenceCluster) -> Mapping[str, str]:
    placement = resource.spec.placement
    return placement.metadata.labels if placement is not None and placement.metadata is not None else {}


def _bound(pods: BoundPod) -> BoundPods:
    return BoundPods(PoolName(pods.pool), pods.node, pods.devices, pods.pods, pods.replica or "", pods.device or "")


def _readiness(resource: InferenceCluster) -> tuple[bool, float | None]:
    """Whether its Ready condition is True for the newest generation and it has an address; or since when not.

    A cluster without a Ready condition is not ready since an unknown time.
    """
    metadata = resource.metadata
    for condition in resource.status.conditions:
        if condition.type == ConditionType.READY:
            fresh = not condition.observed_generation or condition.observed_generation == metadata.generation
            gateway = resource.status.gateway
            if condition.status is ConditionStatus.TRUE:
                # A condition of an older generation is not a failure, so no grace period starts.
                return fresh and gateway is not None and bool(gateway.address), None
            return False, _failing_since(resource, condition)
    return False, None


def _deletion(resource: InferenceCluster) -> str:
    """What its deletion waits for; empty where it is not being deleted."""
    known = {condition.type: condition for condition in resource.status.conditions}
    held, ready = known.get(ConditionType.DELETABLE), known.get(ConditionType.READY)
    if held is not None and held.status is ConditionStatus.FALSE:
        return held.message or held.reason
    if resource.metadata.deletion_timestamp is None:
        return ""
    return (ready.message if ready is not None and ready.reason == Reason.DELETING else "") or "its objects are deleted"


def _failing_since(resource: InferenceCluster, ready: Condition) -> float | None:
    """Since when the cluster or its gateway fails.

    A class that is missing or cannot be read is not a failure, nor is a deletion, which waits for the replicas, nor a
    hub that is silent.
    """
    parts = [condition for condition in resource.status.conditions if condition.type in _PARTS]
    failing = [condition for condition in parts if condition.status is not ConditionStatus.TRUE]
    if not failing:
        failing = [ready]
    since = [epoch_s(condition.last_transition_time) for condition in failing if condition.reason not in _NOT_FAILURES]
    return min((since_s for since_s in since if since_s is not None), default=None)


def _with_taints(pools: tuple[Pool, ...], taints: Mapping[str, tuple[PlacementTaint, ...]]) -> tuple[Pool, ...]:
    """Taints have times of their own, so they are no part of a description."""
    return tuple(
        msgspec.structs.replace(pool, taints=taints[pool.name]) if pool.name in taints else pool for pool in pools
    )


def _queue(resource: InferenceCluster, template: str) -> QueueInfo | None:
    return next((queue for queue in _limiting_queues(resource) if queue.name == template), None)


def _namespace_queues(resource: InferenceCluster, template: str) -> NamespaceQueues | None:
    if not is_per_namespace(template):
        return None
    seen = len(resource.status.queues)
    return NamespaceQueues(template, tuple(_limiting_queues(resource)), complete=0 < seen < MAX_QUEUES)


def _limiting_queues(resource: InferenceCluster) -> Iterator[QueueInfo]:
    for queue in resource.status.queues:
        if queue.quota is not None:
            others = queue.used_by_others
            yield QueueInfo(queue.name, queue.quota, others if others is not None else queue.used or 0)


def fleet_of(clusters: Iterable[Manifest], replicas: Iterable[Manifest], caches: Iterable[Manifest] = ()) -> Fleet:
    """An object that cannot be decoded is in the fleet with its fault, and nothing is placed on it."""
    return Fleet.of(
        (cluster for item in clusters if (cluster := read_cluster(item)) is not None),
        (replica for item in replicas if (replica := read_replica(item)) is not None),
        (cache for item in caches if (cache := read_cache(item)) is not None),
    )


def read_cluster(manifest: Manifest) -> Cluster | None:
    """A cluster; with its fault where it cannot be decoded, or None where its name cannot be either."""
    try:
        return cluster_of(with_chosen_scheduler(decode(InferenceCluster, manifest)))
    except InputError as error:
        named = _outline(manifest)
        return (
            Cluster(name=ClusterName(named.metadata.name), ready=False, hardware_known=False, fault=str(error))
            if named
            else None
        )


def read_replica(manifest: Manifest) -> PlacedReplica | None:
    """A replica; with its fault where it cannot be decoded, or None where owner and cluster cannot be either."""
    try:
        return placed_replica(decode(ModelReplica, manifest))
    except InputError as error:
        named = _outline(manifest)
        if named is None or not named.spec.cluster_name:
            return None
        owner, metadata = named.spec.deployment, named.metadata
        return PlacedReplica(
            deployment=Key(metadata.namespace, owner.name if owner else "", Uid((owner and owner.uid) or "")),
            cluster=ClusterName(named.spec.cluster_name),
            index=named.spec.index,
            assignments=(),
            # Whether it serves is not known either; it must not go before others do.
            serving=True,
            created=metadata.creation_timestamp or "",
            leaving=metadata.deletion_timestamp is not None,
            fault=str(error),
        )


def read_cache(manifest: Manifest) -> CacheInfo | None:
    """A cache; with its fault where it cannot be decoded, or None where its name cannot be either."""
    try:
        return cache_of(decode(ModelCache, manifest))
    except InputError as error:
        named = _outline(manifest)
        if named is None:
            return None
        return CacheInfo(namespace=named.metadata.namespace, name=named.metadata.name, fault=str(error))


class _OutlineSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_name: str = ""
    index: int = 0
    deployment: DeploymentReference | None = None


class _Outline(msgspec.Struct, frozen=True):
    """The fields that must be decodable for an object to count at all."""

    metadata: ObjectMeta
    spec: _OutlineSpec = _OutlineSpec()


def _outline(manifest: Manifest) -> _Outline | None:
    try:
        found = decode(_Outline, manifest)
    except InputError:
        return None
    return found if found.metadata.name else None
