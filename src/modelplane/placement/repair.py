"""Repair: which replicas lose an oversubscribed pool or quota, and which cannot run.

Two deployments can be scheduled at once from the same stale view. Replicas of a cluster are put in one order that every
observer agrees on: those that serve first, then by priority, then the oldest, then by key. Going through it, a replica
keeps its place while its pools stay safe and its namespace within its quota. Those that serve always keep theirs. A
pool counts with its desired nodes: a node that is drained or reboots does not oversubscribe it, and neither does what
others hold. The rest lose their place. Since such a replica did not fit beside those before it, it does not fit beside
all that stay, and will not come back to the same pool.

A replica is stranded where its pool lost nodes or others took its devices, so that it cannot run however well those
before it are packed. It is not evicted at once: see `review` for how long it may wait.
"""

from collections.abc import Callable, Iterator

from modelplane.placement.cluster_info import ClusterInfo, PoolShape, charges, held_by_others_usage
from modelplane.placement.pool_usage import EMPTY, PoolUsage, add, fits, is_impossible, subtract
from modelplane.placement.preempted import preempted
from modelplane.placement.values import Cluster, PlacedReplica, Pool, ReplicaKey


def is_oversubscribed(info: ClusterInfo) -> bool:
    """Whether a pool or a quota is oversubscribed. Replicas that are being deleted are counted too."""
    crowded = any(
        not _keeps_promises(pool, kind, subtract(usage, held_by_others_usage(pool)) if pool.held_by_others else usage)
        for pool, kind, usage in zip(info.pools, info.kinds, info.usages, strict=True)
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
    for replica in _in_order(info, cluster):
        after = _with(info, usages, replica)
        namespace = replica.deployment.namespace
        devices = held.get(namespace, 0) + replica.devices
        fit = _each(info, usages, after, _keeps_promises) and _within(cluster.quota_of(namespace), devices)
        if replica.serving or fit:
            usages = after
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
        if replica.serving or _each(info, usages, after, _may_run):
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


def _each(
    info: ClusterInfo,
    before: list[PoolUsage],
    after: list[PoolUsage],
    bears: Callable[[Pool, PoolShape, PoolUsage], bool],
) -> bool:
    return all(bears(pool, kind, usage) for pool, kind, usage in _changed(info, before, after))


def _changed(
    info: ClusterInfo, before: list[PoolUsage], after: list[PoolUsage]
) -> Iterator[tuple[Pool, PoolShape, PoolUsage]]:
    for pool, kind, was, usage in zip(info.pools, info.kinds, before, after, strict=True):
        if was != usage:
            yield pool, kind, usage


def _keeps_promises(pool: Pool, kind: PoolShape, usage: PoolUsage) -> bool:
    return fits(kind.counts, max(pool.nodes, pool.desired_nodes or 0), usage, packed=kind.packed)


def _may_run(_pool: Pool, kind: PoolShape, usage: PoolUsage) -> bool:
    return not is_impossible(kind.counts, kind.nodes, usage)


def _within(limit: int | None, devices: int) -> bool:
    return limit is None or devices <= limit
