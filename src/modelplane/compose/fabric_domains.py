"""A rack as a unit: nodes that a fabric joins, and that an engine must not straddle.

What exists today to say so is the exclusive topology of LeaderWorkerSet: a group takes the domain of its leader for
itself, and its workers follow the leader there. The leader is scheduled before its workers are made, so it cannot be
combined with a scheduler that waits for the whole gang.
"""

from modelplane.api.models import FabricDomain, InferenceCluster, NodePool, PoolDomain

EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def pool_domain(cluster: InferenceCluster, pool: NodePool) -> PoolDomain | None:
    """The domains of a pool, as its status shows them before anything was observed."""
    domain = _declared(pool)
    if domain is None:
        return None
    return PoolDomain(topology_key=domain.topology_key, node_count=domain.node_count, fault=_fault(cluster))


def topology_key(cluster: InferenceCluster, pool_name: str) -> str | None:
    """The label whose value names the domains of a pool; None for a pool without them."""
    found = next((_declared(pool) for pool in cluster.spec.node_pools if pool.name == pool_name), None)
    return None if found is None else found.topology_key


def _declared(pool: NodePool) -> FabricDomain | None:
    return pool.fabric.domain if pool.fabric is not None else None


def _fault(cluster: InferenceCluster) -> str | None:
    scheduler, backend = cluster.spec.scheduling.type_, cluster.spec.backend.type_
    if backend != "Native":
        return f"a domain of a fabric cannot be asked for with backend {backend}"
    if scheduler != "None":
        return f"a domain of a fabric cannot be asked for together with gang scheduling by {scheduler}"
    return None
