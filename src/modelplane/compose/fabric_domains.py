"""A rack as a unit: nodes that a fabric joins, and that an engine must not straddle.

Each scheduler of a cluster has its own way to ask for that: see `compose.gang`.
"""

from modelplane.api.models import FabricDomain, InferenceCluster, NodePool, PoolDomain


def pool_domain(pool: NodePool, fault: str | None) -> PoolDomain | None:
    """The domains of a pool, as its status shows them before anything was observed. `fault` is the cluster's."""
    domain = _declared(pool)
    if domain is None:
        return None
    return PoolDomain(topology_key=domain.topology_key, node_count=domain.node_count, fault=fault)


def topology_key(cluster: InferenceCluster, pool_name: str) -> str | None:
    """The label whose value names the domains of a pool; None for a pool without them."""
    found = next((_declared(pool) for pool in cluster.spec.node_pools if pool.name == pool_name), None)
    return None if found is None else found.topology_key


def has_compute_domains(cluster: InferenceCluster, pool_name: str) -> bool:
    """Whether engines that span nodes of a pool get a ComputeDomain."""
    found = next((_declared(pool) for pool in cluster.spec.node_pools if pool.name == pool_name), None)
    return found is not None and found.compute_domains


def fabric_type(cluster: InferenceCluster, pool_name: str) -> str:
    """The kind of the network between the nodes of a pool; None where it is not said."""
    pool = next((each for each in cluster.spec.node_pools if each.name == pool_name), None)
    return pool.fabric.type_ if pool is not None and pool.fabric is not None else "None"


def _declared(pool: NodePool) -> FabricDomain | None:
    return pool.fabric.domain if pool.fabric is not None else None
