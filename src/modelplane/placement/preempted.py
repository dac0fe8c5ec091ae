"""Replicas that were preempted, as every observer of their cluster can see."""

from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.values import ReplicaKey


def preempted(info: ClusterInfo) -> frozenset[ReplicaKey]:
    """Replicas that were preempted: named by one of higher priority on the same cluster, and not protected."""
    if not info.preempting:
        return frozenset()
    cluster = info.cluster
    by_digest: dict[str, int] = {}
    for replica in info.held.values():
        if replica.preempts and cluster is not None:
            value = cluster.priority_value(replica.priority)
            for digest in replica.preempts:
                by_digest[digest] = max(value, by_digest.get(digest, value))
    if not by_digest or cluster is None:
        return frozenset()
    return frozenset(
        replica.id
        for replica in info.held.values()
        if not replica.protected
        and by_digest.get(replica.digest, cluster.priority_value(replica.priority))
        > cluster.priority_value(replica.priority)
    )
