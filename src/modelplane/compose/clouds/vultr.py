"""Vultr Kubernetes Engine.

    Kubernetes (with the system pool, and the kubeconfig) ─ KubernetesNodePool (one for each GPU pool)

Vultr runs NVIDIA's operator on GPU nodes, which has the driver in a folder of its own.
"""

from collections.abc import Iterator

from modelplane.api.models import ClusterVultr, InferenceCluster, NodePool, Provisioning
from modelplane.compose.clouds.resources import (
    CLUSTER,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    kubeconfig_access,
    reservation_fault,
)

_VKE = "vke.vultr.m.upbound.io/v1beta1"
_SYSTEM_PLAN = "vc2-6c-16gb"
_DRIVER_ROOT = "/run/nvidia/driver"


def _vultr(cluster: InferenceCluster) -> ClusterVultr:
    found = cluster.spec.cluster.vultr
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.vultr if provisioning is not None else None
    return None if found is None else PoolPlan(pool, found.plan, None, found.accelerator)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    vultr = _vultr(plan.cluster)
    system = {"label": "system", "plan": _SYSTEM_PLAN, "autoScaler": True, "minNodes": 1, "maxNodes": 3}
    body = {
        "label": plan.name(CLUSTER),
        "region": vultr.region,
        "version": vultr.kubernetes_version,
        "haControlplanes": True,
        "nodePools": system,
    }
    secret = kubeconfig_access(plan.cluster).kubeconfig.name
    first = {"nodePools": {"nodeQuantity": 1}}
    yield ManagedResource(CLUSTER, _VKE, "Kubernetes", body, first, secret=secret, late_initialize=False)
    for pool in plan.pools:
        yield _pool(plan, pool)


def _pool(plan: ClusterPlan, pool: PoolPlan) -> ManagedResource:
    size = {"nodeQuantity": pool.pool.node_count}
    bounds = {"autoScaler": True, "minNodes": pool.fewest, "maxNodes": pool.most}
    body = {
        "clusterIdRef": plan.ref(CLUSTER),
        "label": pool.pool.name,
        "plan": pool.machine,
        "labels": [{"key": name, "value": value} for name, value in pool.labels.items()],
        "taints": [{"key": pool.taint, "value": "present", "effect": "NoSchedule"}],
        **(bounds if pool.scales else size),
    }
    initial = size if pool.scales else {}
    return ManagedResource(pool.key, _VKE, "KubernetesNodePool", body, initial, needs=(CLUSTER,), late_initialize=False)


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    del cluster
    if 0 in {pool.node_count, pool.min_node_count}:
        return "nodeCount: a pool of Vultr has a node at least"
    return reservation_fault(pool, "Vultr")


VULTR = Cloud(
    source="Vultr",
    providers=("provider-vultr",),
    provider_version="v1.0.0",
    credentials=lambda cluster: _vultr(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=kubeconfig_access,
    access_keys=(CLUSTER,),
    no_capacity=r"(?i)not (currently )?available in (the|this|your) (selected )?(region|location)|sold out|"
    r"limit .*(reached|exceeded)",
    pool_fault=_pool_fault,
    facts=lambda _: {"driverRoot": _DRIVER_ROOT},
)
