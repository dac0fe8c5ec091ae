"""K3s, on machines that exist and are reached by SSH.

    Cluster (the server, with its kubeconfig) ─ Node (one for each agent)

A pool has the agents that name it. The kernel driver of their GPUs is on the machines.
"""

from collections.abc import Iterator

from modelplane.api.models import Accelerator, Agent, InferenceCluster, K3s, NodePool, Provisioning
from modelplane.compose.clouds.resources import (
    AMD,
    CLUSTER,
    NVIDIA,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    kubeconfig_access,
    node_key,
)

_GROUP = "k3s.m.crossplane.io"
_K3S = f"{_GROUP}/v1alpha1"


def _k3s(cluster: InferenceCluster) -> K3s:
    found = cluster.spec.cluster.k3s
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _agents(cluster: InferenceCluster, pool: NodePool) -> list[Agent]:
    return [agent for agent in _k3s(cluster).agents if agent.pool == pool.name]


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan:
    del provisioning
    return PoolPlan(pool, "", None, Accelerator(type_=pool.class_name, count=1))


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    k3s = _k3s(plan.cluster)
    channel = f"v{k3s.kubernetes_version}"
    body = {
        "host": k3s.control_plane.host,
        "port": k3s.control_plane.port,
        "k3sChannel": channel,
        "tlsSAN": k3s.control_plane.host,
        # The cluster has a gateway of its own. Its address comes from K3s' load balancer.
        "disableTraefik": True,
    }
    secret = kubeconfig_access(plan.cluster).kubeconfig.name
    yield ManagedResource(CLUSTER, _K3S, "Cluster", body, secret=secret)
    for pool in plan.pools:
        for agent in _agents(plan.cluster, pool.pool):
            yield _node(plan, pool, agent, channel)


def _node(plan: ClusterPlan, pool: PoolPlan, agent: Agent, channel: str) -> ManagedResource:
    labels = [f"--node-label={name}={value}" for name, value in pool.labels.items()]
    body = {
        "clusterRef": plan.ref(CLUSTER),
        "host": agent.host,
        "port": agent.port,
        "role": "agent",
        "k3sChannel": channel,
        "extraArgs": " ".join([*labels, f"--node-taint={pool.taint}=present:NoSchedule"]),
    }
    return ManagedResource(node_key(pool.pool, agent.name), _K3S, "Node", body, needs=(CLUSTER,))


def _cluster_fault(cluster: InferenceCluster) -> str | None:
    pools = {pool.name for pool in cluster.spec.node_pools}
    lost = (index for index, agent in enumerate(_k3s(cluster).agents) if agent.pool not in pools)
    index = next(lost, None)
    return None if index is None else f"spec.cluster.k3s.agents[{index}].pool: spec.nodePools has no such pool"


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    agents = len(_agents(cluster, pool))
    if pool.max_node_count is not None:
        return "maxNodeCount: the machines of K3s are there; a pool has the agents that name it"
    if pool.capacity_block is not None or pool.capacity_reservation is not None:
        return "capacityReservation: the machines of K3s are there; nothing is reserved"
    if agents != pool.node_count:
        return f"nodeCount: {agents} of spec.cluster.k3s.agents name the pool, not {pool.node_count}"
    return None


K3S = Cloud(
    source="K3s",
    providers=("provider-k3s",),
    provider_version="v0.1.0",
    credentials=lambda cluster: _k3s(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=kubeconfig_access,
    access_keys=(CLUSTER,),
    no_capacity="",
    makes_machines=False,
    cluster_fault=_cluster_fault,
    pool_fault=_pool_fault,
    drivers=frozenset({NVIDIA, AMD}),
)
