"""Azure Kubernetes Service.

    ResourceGroup ─ VirtualNetwork ─ Subnet ─ KubernetesCluster ─ KubernetesClusterNodePool (one for each GPU pool)
                                              RoleAssignment (of the cluster on the network)

The system pool is part of the cluster. Weights are on Azure Files, reached inside the network only.
"""

import re
from collections.abc import Iterator

from modelplane.api.models import ClusterAks, InferenceCluster, NodePool, Provisioning
from modelplane.api.objects import Json, text_at
from modelplane.compose.clouds.resources import (
    AMD,
    CLUSTER,
    NVIDIA,
    PREFIX,
    Cloud,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    kubeconfig_access,
    shared_storage,
)

_CONTAINERS = "containerservice.azure.m.upbound.io/v1beta1"
_NETWORKS = "network.azure.m.upbound.io/v1beta1"
_ROLES, _NETWORK_ROLE = "authorization.azure.m.upbound.io/v1beta1", f"{PREFIX}network-role"
_GROUP, _NETWORK, _SUBNET = f"{PREFIX}group", f"{PREFIX}network", f"{PREFIX}subnet"
_SYSTEM_MACHINE = "Standard_D4s_v5"
_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")


def _aks(cluster: InferenceCluster) -> ClusterAks:
    found = cluster.spec.cluster.aks
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.aks if provisioning is not None else None
    return None if found is None else PoolPlan(pool, found.vm_size, found.disk_size_gb, found.accelerator)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    location, group = _aks(plan.cluster).location, {"resourceGroupNameRef": plan.ref(_GROUP)}
    yield ManagedResource(_GROUP, "azure.m.upbound.io/v1beta1", "ResourceGroup", {"location": location})
    network: Json = {"location": location, "addressSpace": ["10.0.0.0/16"], **group}
    yield ManagedResource(_NETWORK, _NETWORKS, "VirtualNetwork", network, needs=(_GROUP,))
    subnet = {
        **group,
        "virtualNetworkNameRef": plan.ref(_NETWORK),
        "addressPrefixes": ["10.0.0.0/20"],
        "serviceEndpoints": ["Microsoft.Storage"],
    }
    yield ManagedResource(_SUBNET, _NETWORKS, "Subnet", subnet, needs=(_NETWORK,))
    yield _cluster(plan)
    yield from _network_role(plan)
    for pool in plan.pools:
        yield _pool(plan, pool)


def _cluster(plan: ClusterPlan) -> ManagedResource:
    aks = _aks(plan.cluster)
    system = {
        "name": "system",
        "vmSize": _SYSTEM_MACHINE,
        "autoScalingEnabled": True,
        "minCount": 1,
        "maxCount": 3,
        "vnetSubnetIdRef": plan.ref(_SUBNET),
        "temporaryNameForRotation": "systemtmp",
    }
    body = {
        "location": aks.location,
        "resourceGroupNameRef": plan.ref(_GROUP),
        "dnsPrefix": plan.name(CLUSTER),
        "kubernetesVersion": aks.kubernetes_version,
        "defaultNodePool": system,
        "identity": {"type": "SystemAssigned"},
        "oidcIssuerEnabled": True,
        "workloadIdentityEnabled": True,
        "networkProfile": {
            "networkPlugin": "azure",
            "networkPluginMode": "overlay",
            "podCidr": "10.244.0.0/16",
            "serviceCidr": "10.96.0.0/16",
            "dnsServiceIp": "10.96.0.10",
        },
        "storageProfile": {"fileDriverEnabled": True, "diskDriverEnabled": True},
    }
    secret = kubeconfig_access(plan.cluster).kubeconfig.name
    return ManagedResource(
        CLUSTER,
        _CONTAINERS,
        "KubernetesCluster",
        body,
        needs=(_GROUP, _SUBNET),
        secret=secret,
        late_initialize=False,
    )


def _network_role(plan: ClusterPlan) -> Iterator[ManagedResource]:
    """Lets the cluster join load balancers and private endpoints to the network, once both are known."""
    network = text_at(plan.at_provider(_NETWORK), "id") or plan.stated(_NETWORK_ROLE, "scope")
    identity = text_at(plan.at_provider(CLUSTER), "identity", "principalId")
    identity = identity or plan.stated(_NETWORK_ROLE, "principalId")
    if network and identity:
        body = {"scope": network, "roleDefinitionName": "Network Contributor", "principalId": identity}
        yield ManagedResource(_NETWORK_ROLE, _ROLES, "RoleAssignment", body, needs=(_NETWORK, CLUSTER))


def _pool(plan: ClusterPlan, pool: PoolPlan) -> ManagedResource:
    body: Json = {
        "kubernetesClusterIdRef": plan.ref(CLUSTER),
        "vnetSubnetIdRef": plan.ref(_SUBNET),
        "mode": "User",
        "vmSize": pool.machine,
        "osDiskSizeGb": pool.disk_gb,
        # The image of AKS has NVIDIA's driver. It runs no device plugin, which DRA would collide with. AMD's operator
        # installs its driver itself.
        "gpuDriver": "Install" if pool.driver == NVIDIA else "None",
        "nodeLabels": pool.labels,
        "nodeTaints": [f"{pool.taint}=present:NoSchedule"],
    }
    if pool.pool.zones:
        body["zones"] = [zone.rpartition("-")[2] for zone in pool.pool.zones]
    if pool.pool.capacity_reservation is not None:
        body["capacityReservationGroupId"] = pool.pool.capacity_reservation.name
    first = {"nodeCount": pool.pool.node_count}
    if pool.scales:
        body |= {"autoScalingEnabled": True, "minCount": pool.fewest, "maxCount": pool.most}
    else:
        body |= first
    return ManagedResource(
        pool.key,
        _CONTAINERS,
        "KubernetesClusterNodePool",
        body,
        first if pool.scales else {},
        needs=(CLUSTER, _SUBNET),
        late_initialize=False,
        external_name=pool.pool.name,
    )


def _storage(plan: ClusterPlan) -> Json | None:
    del plan
    parameters = {"protocol": "nfs", "skuName": "Premium_LRS", "networkEndpointType": "privateEndpoint"}
    return shared_storage("file.csi.azure.com", parameters)


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    del cluster
    if _POOL_NAME.fullmatch(pool.name) is None or pool.name == "system":
        return "name: AKS takes a letter and up to 11 more letters and digits, and has a pool system"
    if pool.capacity_block is not None:
        return "capacityBlock: is for EKS; on AKS write capacityReservation"
    return None


AKS = Cloud(
    source="AKS",
    providers=("provider-azure-authorization", "provider-azure-containerservice", "provider-azure-network"),
    provider_version="v2.7.0",
    credentials=lambda cluster: _aks(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=kubeconfig_access,
    access_keys=(CLUSTER, _NETWORK_ROLE),
    no_capacity=r"(?i)SkuNotAvailable|AllocationFailed|ZonalAllocationFailed|OverconstrainedAllocationRequest|"
    r"QuotaExceeded|exceeding approved .*quota",
    pool_fault=_pool_fault,
    drivers=frozenset({NVIDIA, AMD}),
    fabrics=frozenset({"InfiniBand"}),
    storage=_storage,
)
