"""Replicas that were evicted for others, as everybody on their cluster can see."""

from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.values import ReplicaKey


def condemned(site: ClusterInfo) -> frozenset[ReplicaKey]:
    """Replicas that were evicted: named by one of higher priority on the same cluster, and not protected."""
    if not site.evicting:
        return frozenset()
    cluster = site.cluster
    by_digest: dict[str, int] = {}
    for holding in site.held.values():
        if holding.preempts and cluster is not None:
            value = cluster.priority_value(holding.priority)
            for digest in holding.preempts:
                by_digest[digest] = max(value, by_digest.get(digest, value))
    if not by_digest or cluster is None:
        return frozenset()
    return frozenset(
        holding.id
        for holding in site.held.values()
        if not holding.protected
        and by_digest.get(holding.digest, cluster.priority_value(holding.priority))
        > cluster.priority_value(holding.priority)
    )
