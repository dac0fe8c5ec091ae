"""The Fleet snapshot of placement, made from InferenceClusters, ModelReplicas and ModelCaches.

A cluster counts by its status, not by its spec. Pools and devices with equal descriptions are interned as one value, so
the work grows with the number of different descriptions and not with the fleet.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.errors import InputError, InvalidObject
from modelplane.api.meta import ClusterName, Key, ObjectMeta, PoolName, Uid
from modelplane.api.models import (
    BoundPod,
    CacheOnCluster,
    ClassDevice,
    DeploymentReference,
    GpuPool,
    InferenceClass,
    InferenceCluster,
    ModelCache,
    ModelReplica,
    NodePool,
    PoolDevice,
    PoolDomain,
    Quota,
    ReplicaEngine,
    Scheduling,
    SharedCounters,
)
from modelplane.api.objects import Manifest
from modelplane.api.queues import MAX_QUEUES, is_per_namespace, queue_template
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import epoch_s
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import source_fault, storage_of
from modelplane.compose.device_kinds import DeviceDescription, read_kind
from modelplane.compose.drains import ClusterTaints, cluster_taints
from modelplane.compose.lowering import capacity_requests
from modelplane.compose.render_check import describe_rendering
from modelplane.placement.hardware import DeviceKind, Domain, Hardware
from modelplane.placement.matching import Claim
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import (
    BoundPods,
    CacheInfo,
    Cluster,
    MemberAssignment,
    NamespaceQueues,
    Packing,
    PlacedReplica,
    PlacementTaint,
    Pool,
    PoolAssignment,
    Price,
    QueueInfo,
    shared_assignments,
)

SOON_S = 120
"""A cache that will be staged within this time counts as staged: its replica may be placed and waits for it."""
_MAX_HARDWARE = 4_096
_MAX_POOLS = 16_384
_NO_TAINTS = ClusterTaints((), {})
_encode = msgspec.json.Encoder().encode
_SERVING = frozenset({ConditionType.WORKLOAD_READY.value, ConditionType.ROUTE_READY.value})
_PARTS = frozenset({ConditionType.CLUSTER_READY.value, ConditionType.GATEWAY_READY.value})
_NOT_FAILURES = frozenset(
    {Reason.CLASS_MISSING.value, Reason.CLASS_INVALID.value, Reason.UNRESOLVED.value, Reason.DELETING.value}
)


def class_kinds(resource: InferenceClass) -> tuple[DeviceKind, ...]:
    found = _hardware(_encode(_hardware_description(resource.spec.shared_counters, resource.spec.devices)))
    if found.fault:
        raise InvalidObject(f"spec.devices: {found.fault}")
    return found.kinds


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
        rendering=describe_rendering(resource),
    )


class _Described(msgspec.Struct, frozen=True, eq=False):
    """What clusters have in common that are declared alike, and whose pools are used alike."""

    pools: tuple[Pool, ...]
    unpublished_pools: tuple[PoolName, ...]
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
        pools=tuple(_pool(pool, by_name.get(pool.name)) for pool in shown.values()),
        unpublished_pools=tuple(PoolName(pool.name) for pool in declared if pool.name not in shown),
        tainted=any(pool.taints or pool.drain is not None for pool in declared),
        packing=Packing.BIN_PACK if scheduling.packing == "BinPack" else Packing.ANY,
        priorities=tuple((priority.name, priority.value) for priority in scheduling.priorities),
        quotas=tuple((quota.namespace, quota.devices) for quota in quotas),
        queue_template=queue_template(scheduling),
    )


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

    A class that is missing or cannot be read is not a failure, nor is a deletion, which waits for the replicas.
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


def _pool(pool: GpuPool, declared: NodePool | None) -> Pool:
    """The same for one pool, without the counts of its status that placement ignores."""
    observed = pool.observed_nodes
    description = (
        pool.name,
        pool.nodes,
        observed,
        pool.price_per_node_hour,
        pool.currency,
        _hardware_description(pool.shared_counters, pool.devices),
        (declared.node_count, declared.max_node_count) if declared is not None else None,
        [(device.name, others) for device in pool.devices if (others := _unavailable(device))],
        [(device.name, each.devices, each.claims) for device in pool.devices for each in device.claims_of_others],
        pool.short_since,
        pool.domain,
    )
    return _described_pool(_encode(description))


def _unavailable(device: PoolDevice) -> int:
    """Devices that replicas cannot claim: others hold them, or no driver publishes them."""
    return (device.held_by_others or 0) + (device.missing or 0)


def _hardware_description(
    counters: tuple[SharedCounters, ...], devices: tuple[ClassDevice, ...] | tuple[PoolDevice, ...]
) -> tuple[object, ...]:
    return counters, [_description(device) for device in devices]


def _description(device: ClassDevice | PoolDevice) -> tuple[object, ...]:
    """The fields of a device that placement reads."""
    return (
        device.name,
        device.claim,
        device.driver,
        device.device_class_name,
        device.count,
        device.attributes,
        device.capacity,
        device.consumes_counters,
        device.allow_multiple_allocations,
    )


class _PoolDescription(msgspec.Struct, frozen=True, array_like=True):
    name: PoolName
    nodes: int
    observed: int | None
    price: str | None
    currency: str | None
    devices: msgspec.Raw
    declared: tuple[int, int | None] | None
    held_by_others: tuple[tuple[str, int], ...]
    claims_of_others: tuple[tuple[str, int, int], ...]
    short_since: str | None
    domain: PoolDomain | None


@lru_cache(maxsize=_MAX_POOLS)
def _described_pool(description: bytes) -> Pool:
    pool = msgspec.json.decode(description, type=_PoolDescription)
    nodes, now = _nodes(pool)
    declared = _declared_nodes(pool)
    return Pool(
        pool.name,
        nodes,
        _in_domains(_hardware(bytes(pool.devices)), pool.domain),
        price=_price(pool.price, pool.currency) if pool.price else None,
        nodes_now=now,
        desired_nodes=declared if declared > nodes else None,
        held_by_others=pool.held_by_others,
        claims_of_others=pool.claims_of_others,
        short_since=epoch_s(pool.short_since),
        domains=pool.domain.complete if pool.domain is not None else None,
    )


def _in_domains(hardware: Hardware, domain: PoolDomain | None) -> Hardware:
    if domain is None:
        return hardware
    return msgspec.structs.replace(hardware, domain=Domain(domain.topology_key, domain.node_count, domain.fault or ""))


def _declared_nodes(pool: _PoolDescription) -> int:
    """The declared nodes of a pool, or its maximum where it scales."""
    if pool.declared is None:
        return 0
    size, most = pool.declared
    return size if most is None else most


def _nodes(pool: _PoolDescription) -> tuple[int, int | None]:
    """Nodes that placement counts, and the present ones where that differs.

    A pool of fixed size counts its observed nodes, a pool that scales its maximum.
    """
    if pool.declared is not None and pool.declared[1] is not None:
        present = pool.observed if pool.observed is not None else pool.declared[0]
        return max(pool.nodes, 0), None if present >= pool.nodes else present
    return (pool.nodes if pool.observed is None else pool.observed), None


class _HardwareDescription(msgspec.Struct, frozen=True, array_like=True):
    counters: tuple[SharedCounters, ...]
    devices: tuple[DeviceDescription, ...]


@lru_cache(maxsize=_MAX_HARDWARE)
def _hardware(description: bytes) -> Hardware:
    found = msgspec.json.decode(description, type=_HardwareDescription)
    kinds: list[DeviceKind] = []
    for device in found.devices:
        try:
            kinds.append(read_kind(device, found.counters))
        except InputError as error:
            return Hardware((), fault=f"device {device.name}: {error}")
    return Hardware.of(tuple(kinds))


@lru_cache(maxsize=_MAX_HARDWARE)
def _price(amount: str, currency: str | None) -> Price | None:
    try:
        return Price(float(amount), currency or "USD")
    except ValueError:
        return None


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


def placed_replica(resource: ModelReplica) -> PlacedReplica:
    """A replica with its devices, whether or not it runs."""
    spec, metadata = resource.spec, resource.metadata
    owner = spec.deployment
    serving = _serves(resource)
    return PlacedReplica(
        deployment=Key(metadata.namespace, owner.name if owner else "", Uid((owner and owner.uid) or "")),
        cluster=ClusterName(spec.cluster_name),
        index=spec.index,
        assignments=shared_assignments(tuple(_assignment(engine) for engine in spec.engines)),
        serving=serving,
        idle_since=None if serving else _idle_since(resource),
        created=metadata.creation_timestamp or "",
        priority=spec.priority,
        protected=spec.protected,
        leaving=metadata.deletion_timestamp is not None,
        preempts=spec.preempts,
        cluster_missing=_found_no_cluster(resource),
    )


def _found_no_cluster(resource: ModelReplica) -> bool:
    return any(
        condition.type == ConditionType.SCHEDULED
        and condition.status is ConditionStatus.FALSE
        and condition.reason == Reason.CLUSTER_MISSING
        for condition in resource.status.conditions
    )


def _serves(resource: ModelReplica) -> bool:
    """Whether it serves, whatever its other conditions are."""
    held = {condition.type for condition in resource.status.conditions if condition.status is ConditionStatus.TRUE}
    return ConditionType.READY.value in held or held >= _SERVING


def _idle_since(resource: ModelReplica) -> float | None:
    """Since when one that does not serve has not served: its latest transition, or else its creation."""
    failing = {found.type: found for found in resource.status.conditions if found.status is not ConditionStatus.TRUE}
    parts = [epoch_s(failing[name].last_transition_time) for name in sorted(_SERVING & failing.keys())]
    ready = failing.get(ConditionType.READY.value)
    stopped = [
        min((since_s for since_s in parts if since_s is not None), default=None),
        epoch_s(ready.last_transition_time) if ready is not None else None,
        epoch_s(resource.metadata.creation_timestamp),
    ]
    return max((since_s for since_s in stopped if since_s is not None), default=None)


def _assignment(engine: ReplicaEngine) -> PoolAssignment:
    if not engine.members:
        raise InvalidObject(f"spec.engines: engine {engine.name} has no members")
    members = tuple(
        MemberAssignment(
            engine.copies * member.nodes,
            tuple(
                Claim(
                    wanted.name,
                    wanted.device_class_name,
                    wanted.count,
                    tuple(selector.cel for selector in wanted.selectors),
                    capacity_requests(wanted.capacity),
                )
                for wanted in member.device_requests
            ),
        )
        for member in engine.members
    )
    return PoolAssignment(engine.name, PoolName(engine.members[0].node_pool_name), members)


def cache_of(resource: ModelCache) -> CacheInfo:
    entries = resource.status.clusters
    source = source_of(resource)
    key = source.key if source is not None and storage_of(resource).type == "PVC" else ""
    older = {ClusterName(found.name): found.staged_keys[0] for found in entries if _holds_older(found, key)}
    staged = {ClusterName(found.name) for found in entries if found.phase == "Ready"} | older.keys()
    refused: dict[str, set[ClusterName]] = {}
    for found in entries:
        if found.phase == "Failed" and found.name not in staged:
            refused.setdefault(_refusal(found), set()).add(ClusterName(found.name))
    return CacheInfo(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        staged=frozenset(staged),
        selector=resource.spec.cluster_selector,
        artifact=resource.spec.artifact.kind,
        key=key,
        keys=older,
        awaited=_awaited(resource, frozenset(staged)),
        refused=tuple((why, frozenset(where)) for why, where in sorted(refused.items())),
        # An object without a uid is not stored anywhere, so nothing reconciles it: a plan is made of such.
        settled=not resource.metadata.uid or bool(resource.status.conditions),
        fault=source_fault(resource) or "",
    )


def _holds_older(entry: CacheOnCluster, key: str) -> bool:
    """Whether a cluster holds what an older source had, and not yet what the newest has."""
    return bool(entry.staged_keys) and key not in entry.staged_keys


def _refusal(entry: CacheOnCluster) -> str:
    """Without the time of the next attempt: a cause that stays the same must not change the fleet."""
    said = (entry.message or "").partition("; ")[0]
    return f"{entry.reason}: {said}" if said else entry.reason or "staging failed"


def _awaited(resource: ModelCache, staged: frozenset[ClusterName]) -> frozenset[ClusterName]:
    """Clusters that fetch it whoever is placed there, and for longer than a replica takes to start."""
    if resource.spec.replication != "AllMatchingClusters":
        return frozenset()
    fetching = (entry for entry in resource.status.clusters if entry.phase in {"Pending", "Hydrating"})
    return frozenset(ClusterName(entry.name) for entry in fetching if not _is_soon(entry)) - staged


def _is_soon(entry: CacheOnCluster) -> bool:
    return entry.eta_seconds is not None and entry.eta_seconds <= SOON_S


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
        return cluster_of(decode(InferenceCluster, manifest))
    except InputError as error:
        named = _outline(manifest)
        return Cluster(name=ClusterName(named.metadata.name), ready=False, fault=str(error)) if named else None


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
