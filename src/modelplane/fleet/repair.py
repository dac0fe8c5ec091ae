"""Repair: when a pool was promised twice, who gives way.

Two deployments can be scheduled at once from the same stale view. Replicas of a cluster are put in one order that every
observer agrees on: those that serve first, then by priority, then the oldest, then by key. Going through it, a replica
keeps its place while its pools stay safe and its namespace within its quota. Those that serve always keep theirs. A
pool counts with the nodes that it should have: a node that is drained or reboots breaks no promise. What
is left over gives way, and since whoever did not fit beside those before it does not fit beside all that stay, it will
not come back to the same pool.
"""

from modelplane.fleet.review import condemned
from modelplane.fleet.room import EMPTY, Use, add, fits
from modelplane.fleet.site import Site, charges
from modelplane.fleet.values import Cluster, Holding, HoldingId, Pool


def is_oversubscribed(site: Site) -> bool:
    """Whether something was promised twice. Replicas that are on their way out are counted too."""
    crowded = any(
        use and not fits(kind.counts, _nodes(pool), use, packed=kind.packed)
        for pool, kind, use in zip(site.pools, site.kinds, site.uses, strict=True)
    )
    return crowded or any(quota.used > quota.limit for quota in site.traits.quotas)


def giving_way(site: Site) -> frozenset[HoldingId]:
    """The replicas that must leave so that nothing is promised twice."""
    cluster = site.cluster
    if cluster is None or not is_oversubscribed(site):
        return frozenset()
    going = condemned(site)
    staying = [holding for holding in site.held.values() if not holding.leaving and holding.id not in going]
    uses: list[Use] = [EMPTY] * len(site.pools)
    held: dict[str, int] = {}
    losers: list[HoldingId] = []
    for holding in sorted(staying, key=lambda found: _rank(found, cluster)):
        after = list(uses)
        for position, pods in charges(holding, site.pools):
            after[position] = add(after[position], pods)
        namespace = holding.deployment.namespace
        devices = held.get(namespace, 0) + holding.devices
        if holding.serving or (_fit(site, uses, after) and _within(cluster.quota_of(namespace), devices)):
            uses = after
            held[namespace] = devices
        else:
            losers.append(holding.id)
    return frozenset(losers)


def _rank(holding: Holding, cluster: Cluster) -> tuple[bool, int, bool, str, HoldingId]:
    """Who comes first. A replica whose age is not known yet counts as the youngest."""
    priority = cluster.priority_value(holding.priority)
    return not holding.serving, -priority, not holding.created, holding.created, holding.id


def _fit(site: Site, before: list[Use], after: list[Use]) -> bool:
    return all(
        was == use or fits(kind.counts, _nodes(pool), use, packed=kind.packed)
        for pool, kind, was, use in zip(site.pools, site.kinds, before, after, strict=True)
    )


def _nodes(pool: Pool) -> int:
    return max(pool.nodes, pool.meant or 0)


def _within(limit: int | None, devices: int) -> bool:
    return limit is None or devices <= limit
