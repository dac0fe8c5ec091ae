"""Why a replica that has a place cannot run there: a cache that nothing stages, a pool that is smaller than its load.

A place is a promise of devices. A plan that counts such a replica as running would be wrong.
"""

from modelplane.api.meta import ClusterName
from modelplane.placement.pool_usage import is_impossible
from modelplane.placement.request import PlacementRequest
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import PlacedReplica


def missing_cache(request: PlacementRequest, replica: PlacedReplica, fleet: Fleet) -> str:
    """The first cache that the replica mounts and that will not be staged on its cluster; empty where there is none."""
    if replica.serving:
        return ""
    absent = (wanted.name for wanted in request.caches if not _is_staged(request, wanted.name, replica.cluster, fleet))
    name = next(absent, "")
    return f"ModelCache {name} is not staged on {replica.cluster}, and nothing stages it" if name else ""


def _is_staged(request: PlacementRequest, name: str, cluster: ClusterName, fleet: Fleet) -> bool:
    """Whether the cache is on the cluster or will be."""
    cache, info = fleet.caches.get((request.deployment.namespace, name)), fleet.infos.get(cluster)
    if cache is None or cluster in cache.staged:
        return cache is not None
    return info is not None and info.cluster is not None and cache.reaches(info.cluster)


def shrunk_pool(replica: PlacedReplica, fleet: Fleet) -> str:
    """The first pool of the replica that has fewer devices than are held of it; empty where there is none."""
    info = fleet.infos[replica.cluster]
    for assignment in replica.assignments:
        position = info.position(assignment.pool)
        if position is None:
            continue
        kind, usage = info.kinds[position], info.usages[position]
        if is_impossible(kind.counts, kind.nodes, usage):
            return f"pool {assignment.pool} has {kind.devices} devices, and its replicas hold more"
    return ""
