"""Civo Kubernetes.

    Network ─ Firewall ─ Cluster (with the system pool, and the kubeconfig) ─ NodePool (one for each GPU pool)

Pools have a fixed size: the autoscaler would need a token of the account on the cluster.
"""

from collections.abc import Iterator

from modelplane.api.models import ClusterCivo, InferenceCluster, NodePool, Provisioning
from modelplane.compose.clouds.resources import (
    CLUSTER,
    PREFIX,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    kubeconfig_access,
    reservation_fault,
)

_KUBERNETES, _VPC = "kubernetes.civo.m.upbound.io/v1beta1", "vpc.civo.m.upbound.io/v1beta1"
_NETWORK, _FIREWALL = f"{PREFIX}network", f"{PREFIX}firewall"
_SYSTEM_SIZE = "g4p.kube.small"
_SYSTEM_NODES = 2


def _civo(cluster: InferenceCluster) -> ClusterCivo:
    found = cluster.spec.cluster.civo
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.civo if provisioning is not None else None
    return None if found is None else PoolPlan(pool, found.size, None, found.accelerator)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    region = {"region": _civo(plan.cluster).region}
    yield ManagedResource(_NETWORK, _VPC, "Network", {**region, "label": plan.name(_NETWORK)})
    firewall = {
        **region,
        "name": plan.name(_FIREWALL),
        "networkIdRef": plan.ref(_NETWORK),
        "createDefaultRules": True,
    }
    yield ManagedResource(_FIREWALL, _VPC, "Firewall", firewall, needs=(_NETWORK,))
    yield _cluster(plan)
    for pool in plan.pools:
        body = {
            **region,
            "clusterIdRef": plan.ref(CLUSTER),
            "label": pool.pool.name,
            "size": pool.machine,
            "nodeCount": pool.pool.node_count,
            "labels": pool.labels,
            "taint": [{"key": pool.taint, "value": "present", "effect": "NoSchedule"}],
        }
        yield ManagedResource(pool.key, _KUBERNETES, "NodePool", body, needs=(CLUSTER,))


def _cluster(plan: ClusterPlan) -> ManagedResource:
    civo = _civo(plan.cluster)
    body = {
        "region": civo.region,
        "name": plan.name(CLUSTER),
        "networkIdRef": plan.ref(_NETWORK),
        "firewallIdRef": plan.ref(_FIREWALL),
        "cni": "cilium",
        # The cluster has a gateway of its own.
        "applications": "-traefik2-nodeport",
        "writeKubeconfig": True,
        "pools": {"label": "system", "size": _SYSTEM_SIZE, "nodeCount": _SYSTEM_NODES},
        **({"kubernetesVersion": civo.kubernetes_version} if civo.kubernetes_version else {}),
    }
    secret = kubeconfig_access(plan.cluster).kubeconfig.name
    return ManagedResource(CLUSTER, _KUBERNETES, "Cluster", body, needs=(_NETWORK, _FIREWALL), secret=secret)


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    del cluster
    if pool.max_node_count is not None:
        return "maxNodeCount: pools of Civo have a fixed size; write nodeCount alone"
    return reservation_fault(pool, "Civo")


CIVO = Cloud(
    source="Civo",
    providers=("provider-civo",),
    provider_version="v1.0.0",
    credentials=lambda cluster: _civo(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=kubeconfig_access,
    access_keys=(CLUSTER,),
    no_capacity=r"(?i)out_?of_?capacity|quota_?limit_?reached|exceed.* quota",
    pool_fault=_pool_fault,
    # NVIDIA's operator has the driver in a folder of its own: the nodes of Civo have none.
    facts=lambda _: {"driverRoot": "/run/nvidia/driver"},
)
