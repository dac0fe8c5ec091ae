"""Repair: which replicas lose an oversubscribed pool or quota, and which cannot run.

Two deployments can be scheduled at once from the same stale view. Replicas of a cluster are put in one order that every
observer agrees on: those that serve first, then by priority, then the oldest, then by key. Going through it, a replica
keeps its place while its pools stay safe and its namespace within its quota. Those that serve always keep theirs. A
pool counts with its desired nodes: a node that is drained or reboots does not oversubscribe it, and neither does what
others hold. The rest lose their place. Since such a replica did not fit beside those before it, it does not fit beside
all that stay, and will not come back to the same pool.

Where a cluster reports on which nodes pods are, one that starts keeps its place as long as a node is free for it. While
a pod restarts, another could take its node: that is no oversubscription yet. If the node is taken, the report says so,
and the replica loses its place.

A replica is stranded where its pool lost nodes or others took its devices, so that it cannot run however well those
before it are packed. It is not evicted at once: see `review` for how long it may wait.
"""

from collections.abc import Iterable

from modelplane.placement.bound_places import bound_nodes
from modelplane.placement.cluster_info import ClusterInfo, PoolShape, charges, held_by_others_usage
from modelplane.placement.packing import packs_beside
from modelplane.placement.pool_usage import EMPTY, BoundNodes, PoolUsage, add, fits, is_impossible, subtract
from modelplane.placement.preempted import preempted
from modelplane.placement.values import Cluster, PlacedReplica, Pool, ReplicaKey


def is_oversubscribed(info: ClusterInfo) -> bool:
    """Whether a pool or a quota is oversubscribed. Replicas that are being deleted are counted too."""
    crowded = any(
        not _keeps_promises(
            pool,
            kind,
            subtract(usage, held_by_others_usage(pool)) if pool.held_by_others else usage,
            _bound(info, info.places, at) if kind.bound else (),
        )
        for at, (pool, kind, usage) in enumerate(zip(info.pools, info.kinds, info.usages, strict=True))
        if usage
    )
    return crowded or any(quota.used > quota.limit for quota in info.profile.quotas)


def resolve_conflicts(info: ClusterInfo) -> frozenset[ReplicaKey]:
    """The replicas that must leave so that nothing is oversubscribed."""
    cluster = info.cluster
    if cluster is None or not is_oversubscribed(info):
        return frozenset()
    usages: list[PoolUsage] = [EMPTY] * len(info.pools)
    held: dict[str, int] = {}
    losers: list[ReplicaKey] = []
    kept: list[ReplicaKey] = []
    for replica in _in_order(info, cluster):
        after = _with(info, usages, replica)
        namespace = replica.deployment.namespace
        devices = held.get(namespace, 0) + replica.devices
        staying = [*kept, replica.id]
        fit = all(
            _keeps_promises(info.pools[at], info.kinds[at], after[at], _bound(info, staying, at))
            for at in _changed(usages, after)
        )
        if replica.serving or (fit and _within(cluster.quota_of(namespace), devices)):
            usages, kept = after, staying
            held[namespace] = devices
        else:
            losers.append(replica.id)
    return frozenset(losers)


def stranded(info: ClusterInfo) -> frozenset[ReplicaKey]:
    """The replicas that cannot run on the nodes that are there, beside what others hold of them."""
    cluster = info.cluster
    if cluster is None or not any(pool.desired_nodes or pool.held_by_others for pool in info.pools):
        return frozenset()
    usages = [held_by_others_usage(pool) for pool in info.pools]
    left: list[ReplicaKey] = []
    for replica in _in_order(info, cluster):
        after = _with(info, usages, replica)
        if replica.serving or all(_may_run(info.kinds[at], after[at]) for at in _changed(usages, after)):
            usages = after
        else:
            left.append(replica.id)
    return frozenset(left)


def _in_order(info: ClusterInfo, cluster: Cluster) -> list[PlacedReplica]:
    going = preempted(info)
    staying = [replica for replica in info.held.values() if not replica.leaving and replica.id not in going]
    return sorted(staying, key=lambda found: _rank(found, cluster))


def _rank(replica: PlacedReplica, cluster: Cluster) -> tuple[bool, int, bool, str, ReplicaKey]:
    """Who comes first. A replica whose age is not known yet counts as the youngest."""
    priority = cluster.priority_value(replica.priority)
    return not replica.serving, -priority, not replica.created, replica.created, replica.id


def _with(info: ClusterInfo, usages: list[PoolUsage], replica: PlacedReplica) -> list[PoolUsage]:
    after = list(usages)
    for position, pods in charges(replica, info.pools):
        after[position] = add(after[position], pods)
    return after


def _changed(before: list[PoolUsage], after: list[PoolUsage]) -> list[int]:
    """The positions of the pools whose usage differs."""
    return [at for at, (was, usage) in enumerate(zip(before, after, strict=True)) if was != usage]


def _bound(info: ClusterInfo, replicas: Iterable[ReplicaKey | None], position: int) -> BoundNodes:
    """The nodes that pods of some replicas are on."""
    if not info.places:
        return ()
    return bound_nodes((info.places[key] for key in replicas if key is not None and key in info.places), position)


def _keeps_promises(pool: Pool, kind: PoolShape, usage: PoolUsage, bound: BoundNodes) -> bool:
    nodes = pool.units(max(pool.nodes, pool.desired_nodes or 0))
    if fits(kind.counts, nodes, usage, packed=kind.packed, bound=bound):
        return True
    return bool(bound) and packs_beside(kind.counts, nodes, usage, bound)


def _may_run(kind: PoolShape, usage: PoolUsage) -> bool:
    return not is_impossible(kind.counts, kind.nodes, usage)


def _within(limit: int | None, devices: int) -> bool:
    return limit is None or devices <= limit
