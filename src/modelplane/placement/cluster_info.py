"""One cluster and the replicas that hold devices of it.

A ClusterInfo is a value; adding or removing a replica makes a new one and touches only the pools that the replica uses.
What decisions depend on is kept apart from names: `ClusterProfile` for the cluster, `PoolShape` and `PoolUsage` for
each pool. Pools with equal shapes and usages on clusters with equal profiles get equal answers, so the index groups by
them.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from modelplane.api.queues import queue_name
from modelplane.placement.bound_places import Places, bound_nodes, find_places, update_places
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import DOMAIN, held_shape
from modelplane.placement.pool_usage import EMPTY, BoundNodes, PoolUsage, add, subtract
from modelplane.placement.values import (
    Cluster,
    NamespaceQueues,
    Packing,
    PlacedReplica,
    PlacementTaint,
    Pool,
    Price,
    QueueInfo,
    ReplicaKey,
)

_CACHED = 16_384


class PoolShape(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What a pool is, apart from its name and from who uses it."""

    hardware: Hardware
    counts: tuple[int, ...]
    nodes: int
    """Or domains, where its nodes are used by the domain."""
    taints: tuple[PlacementTaint, ...]
    price: Price | None
    packed: bool
    missing_nodes: int = 0
    """Nodes that it should have and that are not there."""
    foreign: PoolUsage = EMPTY
    """The part of its usage that claims of others hold, several devices each. They need not find another node."""
    bound: BoundNodes = ()
    """The part of its usage that is known to be on some nodes."""

    @property
    def whole(self) -> "PoolShape":
        """The pool with all nodes that it should have, none of which is known to be in use."""
        if not self.missing_nodes and not self.bound:
            return self
        return msgspec.structs.replace(self, nodes=self.nodes + self.missing_nodes, missing_nodes=0, bound=())

    @property
    def devices(self) -> int:
        """Claimable devices of the whole pool."""
        domain = self.hardware.domain
        return self.nodes * self.hardware.claimable * (domain.nodes if domain is not None else 1)


class QuotaState(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    namespace: str
    limit: int
    used: int


class QueueState(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What is left of a queue that has a limit."""

    name: str
    limit: int
    left: int
    missing: bool = False
    """It does not exist, so that nothing would be scheduled from it."""


class ClusterProfile(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What a cluster is, apart from its name, its labels and its pools."""

    ready: bool
    cordoned: bool
    taints: tuple[PlacementTaint, ...] = ()
    priorities: tuple[tuple[str, int], ...] = ()
    default_priority: str | None = None
    quotas: tuple[QuotaState, ...] = ()
    """One for each namespace that holds devices where quotas are set, and one for "*"."""
    queue: QueueState | None = None
    """The queue of all namespaces; None for no limit."""
    queue_template: str = ""
    """The name of each namespace's queue, where they have queues of their own."""
    namespace_queues: tuple[QueueState, ...] = ()
    """Those queues; a negative limit is none."""
    has_all_queues: bool = False
    rendering: bytes = b""
    deletion: str = ""
    fault: str = ""
    hardware_known: bool = True
    """As of a Cluster."""

    def quota_left(self, namespace: str) -> tuple[int, int] | None:
        """What is left and what the limit is, for a namespace; None for no limit."""
        found = next((quota for quota in self.quotas if quota.namespace == namespace), None)
        found = found or next((quota for quota in self.quotas if quota.namespace == "*"), None)
        return None if found is None else (found.limit - found.used, found.limit)

    def queue_of(self, namespace: str) -> QueueState | None:
        """The queue that limits a namespace; None for no limit."""
        if not self.queue_template:
            return self.queue
        name = queue_name(self.queue_template, namespace)
        found = next((queue for queue in self.namespace_queues if queue.name == name), None)
        if found is None and name is not None and self.has_all_queues:
            return QueueState(name, 0, 0, missing=True)
        return None if found is None or found.limit < 0 else found

    def queue_left(self, namespace: str) -> int | None:
        """Devices that are left in the queue of a namespace; None for no limit."""
        queue = self.queue_of(namespace)
        return None if queue is None else queue.left


class ClusterInfo(msgspec.Struct, frozen=True, eq=False, gc=False):
    cluster: Cluster | None
    """None for a cluster that replicas name and that does not exist."""
    held: Mapping[ReplicaKey, PlacedReplica]
    pools: tuple[Pool, ...]
    """By name."""
    kinds: tuple[PoolShape, ...]
    usages: tuple[PoolUsage, ...]
    profile: ClusterProfile
    preempting: bool = False
    """Whether a replica here may have preempted others."""
    places: Places = MappingProxyType({})
    """Where pods are known to be."""

    @property
    def existing(self) -> Cluster:
        """The cluster of a place: only clusters that exist have any."""
        if self.cluster is None:
            raise LookupError("the cluster does not exist")
        return self.cluster

    def position(self, pool: str) -> int | None:
        return next((position for position, found in enumerate(self.pools) if found.name == pool), None)

    def with_replicas(self, added: Iterable[PlacedReplica] = (), removed: Iterable[ReplicaKey] = ()) -> "ClusterInfo":
        """The cluster after some replicas were removed and others added. One that exists already is replaced."""
        held, usages = dict(self.held), list(self.usages)
        newcomers = {replica.id: replica for replica in added}
        for gone in (*removed, *newcomers):
            before = held.pop(gone, None)
            if before is not None:
                for position, pods in charges(before, self.pools):
                    usages[position] = subtract(usages[position], pods)
        for replica in newcomers.values():
            for position, pods in charges(replica, self.pools):
                usages[position] = add(usages[position], pods)
        held |= newcomers
        cluster = self.cluster
        cluster_profile = self.profile
        if cluster is not None and _has_limits(cluster):
            cluster_profile = _cluster_profile(cluster, held)
        preempting = self.preempting or any(replica.preempts for replica in newcomers.values())
        places = self.places
        if cluster is not None and cluster.bound:
            places = update_places(places, cluster, self.pools, newcomers.values(), removed)
        kinds = self.kinds if places is self.places else with_bound_nodes(self.kinds, places)
        return ClusterInfo(cluster, held, self.pools, kinds, tuple(usages), cluster_profile, preempting, places)


_NO_PROFILE = ClusterProfile(ready=False, cordoned=False)
_NOWHERE: Places = MappingProxyType({})


def make_cluster_info(cluster: Cluster | None, replicas: Iterable[PlacedReplica] = ()) -> ClusterInfo:
    held = {replica.id: replica for replica in replicas}
    if cluster is None:
        return ClusterInfo(None, held, (), (), (), _NO_PROFILE)
    pools, kinds, usages = _laid_out(cluster.pools, packed=cluster.packing is Packing.BIN_PACK)
    profile = _cluster_profile(cluster, held)
    places = find_places(cluster, pools, held.values()) if cluster.bound else _NOWHERE
    kinds = with_bound_nodes(kinds, places) if places else kinds
    if not held:
        return ClusterInfo(cluster, held, pools, kinds, usages, profile, places=places)
    used = list(usages)
    for replica in held.values():
        for position, pods in charges(replica, pools):
            used[position] = add(used[position], pods)
    preempting = any(replica.preempts for replica in held.values())
    return ClusterInfo(cluster, held, pools, kinds, tuple(used), profile, preempting, places)


@lru_cache(maxsize=_CACHED)
def _laid_out(
    pools: tuple[Pool, ...], *, packed: bool
) -> tuple[tuple[Pool, ...], tuple[PoolShape, ...], tuple[PoolUsage, ...]]:
    """The pools by name, what each is, and what others hold of it. Clusters that were made alike share all of it."""
    ordered = tuple(sorted(pools, key=lambda pool: pool.name))
    kinds = tuple(_kind(pool, packed=packed) for pool in ordered)
    return ordered, kinds, tuple(held_by_others_usage(pool) for pool in ordered)


def _kind(pool: Pool, *, packed: bool) -> PoolShape:
    nodes = pool.units(pool.nodes)
    if pool.domains is not None:
        nodes = min(nodes, pool.domains)
    missing_nodes = max(pool.units(max(pool.desired_nodes or 0, pool.nodes)) - nodes, 0)
    return PoolShape(
        pool.hardware,
        pool.hardware.counts if pool.hardware.domain is None else (1,),
        nodes,
        pool.taints,
        pool.price,
        packed,
        missing_nodes,
        tuple((shape, number) for shape, number in held_by_others_usage(pool) if shape[0][0] > 1),
    )


def with_bound_nodes(kinds: tuple[PoolShape, ...], places: Places) -> tuple[PoolShape, ...]:
    known = tuple(places.values())
    return _with_bound_nodes(kinds, tuple(bound_nodes(known, position) for position in range(len(kinds))))


@lru_cache(maxsize=_CACHED)
def _with_bound_nodes(kinds: tuple[PoolShape, ...], bound: tuple[BoundNodes, ...]) -> tuple[PoolShape, ...]:
    """Clusters whose pools are used alike share one value."""
    return tuple(
        kind if kind.bound == nodes else msgspec.structs.replace(kind, bound=nodes)
        for kind, nodes in zip(kinds, bound, strict=True)
    )


def charges(replica: PlacedReplica, pools: tuple[Pool, ...]) -> list[tuple[int, PoolUsage]]:
    """What a replica holds of each pool. A pool that is gone is charged nothing, and no other in its place."""
    found: list[tuple[int, PoolUsage]] = []
    for assignment in replica.assignments:
        position = next((position for position, pool in enumerate(pools) if pool.name == assignment.pool), None)
        if position is None:
            continue
        pods: PoolUsage = EMPTY
        if pools[position].hardware.domain is not None:
            copies = min((member.pods for member in assignment.members), default=0)
            found.append((position, ((DOMAIN, copies),) if copies else EMPTY))
            continue
        for member in assignment.members:
            shape = held_shape(member.claims, pools[position].hardware)
            if shape:
                pods = add(pods, ((shape, member.pods),))
        found.append((position, pods))
    return found


def held_by_others_usage(pool: Pool) -> PoolUsage:
    """What others hold of a pool: the devices of a claim together, which are on one node, the rest one by one."""
    held = dict(pool.held_by_others)
    pods: PoolUsage = EMPTY
    if pool.hardware.domain is not None:
        # Domains in which others hold something are not counted as complete.
        return pods
    for bit, kind in enumerate(pool.hardware.kinds):
        if kind.device_class is None:
            continue
        left = held.get(kind.name, 0)
        for name, size, claims in pool.claims_of_others:
            number = min(claims, left // size) if name == kind.name else 0
            if number:
                pods = add(pods, (((pool.hardware.demand(min(size, kind.count), 1 << bit, None),), number),))
                left -= size * number
        if left > 0:
            pods = add(pods, (((pool.hardware.demand(1, 1 << bit, None),), left),))
    return pods


def _cluster_profile(cluster: Cluster, held: Mapping[ReplicaKey, PlacedReplica]) -> ClusterProfile:
    plain = _plain_profile(
        cluster.ready,
        cluster.cordoned,
        cluster.taints,
        cluster.priorities,
        cluster.default_priority,
        cluster.rendering,
    )
    if not cluster.hardware_known:
        plain = msgspec.structs.replace(plain, hardware_known=False)
    if cluster.fault:
        return msgspec.structs.replace(plain, fault=cluster.fault)
    if cluster.deletion:
        plain = msgspec.structs.replace(plain, deletion=cluster.deletion)
    if not _has_limits(cluster):
        return plain
    limited = msgspec.structs.replace(
        plain,
        quotas=_quotas(cluster, held) if cluster.quotas else (),
        queue=_queue_state(cluster.queue, held.values()) if cluster.queue is not None else None,
    )
    return limited if cluster.namespace_queues is None else _with_queues(limited, cluster.namespace_queues, held)


def _has_limits(cluster: Cluster) -> bool:
    return bool(cluster.quotas) or cluster.queue is not None or cluster.namespace_queues is not None


@lru_cache(maxsize=_CACHED)
def _plain_profile(
    ready: bool,  # noqa: FBT001  fields of a value, in their order
    cordoned: bool,  # noqa: FBT001  as above
    taints: tuple[PlacementTaint, ...],
    priorities: tuple[tuple[str, int], ...],
    default_priority: str | None,
    rendering: bytes,
) -> ClusterProfile:
    """Clusters without quotas share their profiles, which makes them quick to compare."""
    return ClusterProfile(ready, cordoned, taints, priorities, default_priority, rendering=rendering)


def _quotas(cluster: Cluster, held: Mapping[ReplicaKey, PlacedReplica]) -> tuple[QuotaState, ...]:
    used = dict.fromkeys((namespace for namespace, _ in cluster.quotas), 0)
    for replica in held.values():
        namespace = replica.deployment.namespace
        used[namespace] = used.get(namespace, 0) + replica.devices
    used["*"] = 0
    limits = {namespace: cluster.quota_of(namespace) for namespace in used}
    return tuple(
        QuotaState(namespace, limit, used[namespace])
        for namespace, limit in sorted(limits.items())
        if limit is not None
    )


def _queue_state(queue: QueueInfo, submitting: Iterable[PlacedReplica]) -> QueueState | None:
    if queue.quota < 0:
        return None
    return QueueState(
        queue.name, queue.quota, queue.quota - queue.others - sum(replica.devices for replica in submitting)
    )


def _with_queues(
    limited: ClusterProfile, known: NamespaceQueues, held: Mapping[ReplicaKey, PlacedReplica]
) -> ClusterProfile:
    submitting: dict[str | None, list[PlacedReplica]] = {}
    for replica in held.values():
        submitting.setdefault(queue_name(known.template, replica.deployment.namespace), []).append(replica)
    states = tuple(
        _queue_state(queue, submitting.get(queue.name, ())) or QueueState(queue.name, -1, 0) for queue in known.queues
    )
    return msgspec.structs.replace(
        limited, queue_template=known.template, namespace_queues=states, has_all_queues=known.complete
    )
