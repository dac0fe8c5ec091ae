"""Repair: when a pool was promised twice, who gives way; and who waits for what will not come.

Two deployments can be scheduled at once from the same stale view. Replicas of a cluster are put in one order that every
observer agrees on: those that serve first, then by priority, then the oldest, then by key. Going through it, a replica
keeps its place while its pools stay safe and its namespace within its quota. Those that serve always keep theirs. A
pool counts with the nodes that it should have: a node that is drained or reboots breaks no promise, and what others
hold was not promised by anybody here. What is left over gives way, and since whoever did not fit beside those before it
does not fit beside all that stay, it will not come back to the same pool.

A replica is stranded where its pool lost nodes or others took its devices, so that it cannot run however well those
before it are packed. It is not driven out at once: see `review` for how long it may wait.
"""

from collections.abc import Callable, Iterator

from modelplane.placement.cluster_info import ClusterInfo, PoolShape, charges, others_use
from modelplane.placement.evicted import condemned
from modelplane.placement.room import EMPTY, Use, add, cannot_be, fits, subtract
from modelplane.placement.values import Cluster, PlacedReplica, Pool, ReplicaKey


def is_oversubscribed(site: ClusterInfo) -> bool:
    """Whether something was promised twice. Replicas that are on their way out are counted too."""
    crowded = any(
        not _keeps_promises(pool, kind, subtract(use, others_use(pool)) if pool.others_held else use)
        for pool, kind, use in zip(site.pools, site.kinds, site.uses, strict=True)
        if use
    )
    return crowded or any(quota.used > quota.limit for quota in site.traits.quotas)


def giving_way(site: ClusterInfo) -> frozenset[ReplicaKey]:
    """The replicas that must leave so that nothing is promised twice."""
    cluster = site.cluster
    if cluster is None or not is_oversubscribed(site):
        return frozenset()
    uses: list[Use] = [EMPTY] * len(site.pools)
    held: dict[str, int] = {}
    losers: list[ReplicaKey] = []
    for holding in _in_order(site, cluster):
        after = _with(site, uses, holding)
        namespace = holding.deployment.namespace
        devices = held.get(namespace, 0) + holding.devices
        fit = _each(site, uses, after, _keeps_promises) and _within(cluster.quota_of(namespace), devices)
        if holding.serving or fit:
            uses = after
            held[namespace] = devices
        else:
            losers.append(holding.id)
    return frozenset(losers)


def stranded(site: ClusterInfo) -> frozenset[ReplicaKey]:
    """The replicas that cannot run on the nodes that are there, beside what others hold of them."""
    cluster = site.cluster
    if cluster is None or not any(pool.meant or pool.others_held for pool in site.pools):
        return frozenset()
    uses = [others_use(pool) for pool in site.pools]
    left: list[ReplicaKey] = []
    for holding in _in_order(site, cluster):
        after = _with(site, uses, holding)
        if holding.serving or _each(site, uses, after, _may_run):
            uses = after
        else:
            left.append(holding.id)
    return frozenset(left)


def _in_order(site: ClusterInfo, cluster: Cluster) -> list[PlacedReplica]:
    going = condemned(site)
    staying = [holding for holding in site.held.values() if not holding.leaving and holding.id not in going]
    return sorted(staying, key=lambda found: _rank(found, cluster))


def _rank(holding: PlacedReplica, cluster: Cluster) -> tuple[bool, int, bool, str, ReplicaKey]:
    """Who comes first. A replica whose age is not known yet counts as the youngest."""
    priority = cluster.priority_value(holding.priority)
    return not holding.serving, -priority, not holding.created, holding.created, holding.id


def _with(site: ClusterInfo, uses: list[Use], holding: PlacedReplica) -> list[Use]:
    after = list(uses)
    for position, pods in charges(holding, site.pools):
        after[position] = add(after[position], pods)
    return after


def _each(
    site: ClusterInfo, before: list[Use], after: list[Use], bears: Callable[[Pool, PoolShape, Use], bool]
) -> bool:
    return all(bears(pool, kind, use) for pool, kind, use in _changed(site, before, after))


def _changed(site: ClusterInfo, before: list[Use], after: list[Use]) -> Iterator[tuple[Pool, PoolShape, Use]]:
    for pool, kind, was, use in zip(site.pools, site.kinds, before, after, strict=True):
        if was != use:
            yield pool, kind, use


def _keeps_promises(pool: Pool, kind: PoolShape, use: Use) -> bool:
    return fits(kind.counts, max(pool.nodes, pool.meant or 0), use, packed=kind.packed)


def _may_run(_pool: Pool, kind: PoolShape, use: Use) -> bool:
    return not cannot_be(kind.counts, kind.nodes, use)


def _within(limit: int | None, devices: int) -> bool:
    return limit is None or devices <= limit
