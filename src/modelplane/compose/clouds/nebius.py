"""Nebius Managed Kubernetes.

    Network ─ Subnet ─ Cluster (its kubeconfig) ─ NodeGroup (system, one for each GPU pool)
                       GpuCluster (for each pool on InfiniBand)

The kubeconfig names the cluster and nobody who may enter it, so the cluster is reached as the service account of a
Secret. Groups have the driver of their class's preset.
"""

from collections.abc import Iterator, Mapping

from modelplane.api.models import ClusterNebius, InferenceCluster, NodePool, Provisioning
from modelplane.compose.clouds.resources import (
    CLUSTER,
    PREFIX,
    Cloud,
    CloudAccess,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    SecretKeyRef,
    fabric_of,
    pool_part,
)

_MK8S, _VPC = "mk8s.nebius.m.upbound.io/v1beta1", "vpc.nebius.m.upbound.io/v1beta1"
_COMPUTE = "compute.nebius.m.upbound.io/v1beta1"
_NETWORK, _SUBNET, _SYSTEM = f"{PREFIX}network", f"{PREFIX}subnet", f"{PREFIX}system"
_SYSTEM_MACHINE = {"platform": "cpu-d3", "preset": "4vcpu-16gb"}
_SYSTEM_DISK_GB = 64


def _nebius(cluster: InferenceCluster) -> ClusterNebius:
    found = cluster.spec.cluster.nebius
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.nebius if provisioning is not None else None
    if found is None:
        return None
    settings = {"preset": found.preset, "driversPreset": found.drivers_preset}
    return PoolPlan(pool, found.platform, found.disk_size_gb, found.accelerator, settings=settings)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    nebius = _nebius(plan.cluster)
    project = {"parentId": nebius.project_id}
    yield ManagedResource(_NETWORK, _VPC, "Network", {**project, "name": plan.name(_NETWORK)})
    subnet = {**project, "name": plan.name(_SUBNET), "networkIdRef": plan.ref(_NETWORK)}
    yield ManagedResource(_SUBNET, _VPC, "Subnet", subnet, needs=(_NETWORK,))
    control_plane = {
        "subnetIdRef": plan.ref(_SUBNET),
        "version": nebius.kubernetes_version,
        "etcdClusterSize": 3,
        "endpoints": {"publicEndpoint": {}},
    }
    cluster = {**project, "name": plan.name(CLUSTER), "controlPlane": control_plane}
    secret = _access(plan.cluster).kubeconfig.name
    yield ManagedResource(CLUSTER, _MK8S, "Cluster", cluster, needs=(_SUBNET,), secret=secret, late_initialize=False)
    machine = {"resources": _SYSTEM_MACHINE, "bootDisk": _disk(_SYSTEM_DISK_GB)}
    yield _group(plan, _SYSTEM, {"minNodeCount": 1, "maxNodeCount": 3}, machine)
    for pool in plan.pools:
        yield from _pool(plan, pool)


def _disk(size_gb: int | None) -> dict[str, object]:
    return {"type": "NETWORK_SSD", "sizeGibibytes": size_gb}


def _pool(plan: ClusterPlan, pool: PoolPlan) -> Iterator[ManagedResource]:
    template: dict[str, object] = {
        "resources": {"platform": pool.machine, "preset": pool.settings["preset"]},
        "bootDisk": _disk(pool.disk_gb),
        "gpuSettings": {"driversPreset": pool.settings["driversPreset"]},
        "metadata": {"labels": pool.labels},
        "taints": [{"key": pool.taint, "value": "present", "effect": "NO_SCHEDULE"}],
    }
    needs: tuple[str, ...] = ()
    if fabric_of(pool.pool) == "InfiniBand":
        key = pool_part(pool.pool, "fabric")
        name = pool.pool.fabric.name if pool.pool.fabric is not None else None
        fabric = {"parentId": _nebius(plan.cluster).project_id, "name": plan.name(key), "infinibandFabric": name}
        yield ManagedResource(key, _COMPUTE, "GpuCluster", fabric)
        template["gpuCluster"] = {"idRef": plan.ref(key)}
        needs = (key,)
    if pool.pool.capacity_reservation is not None:
        name = pool.pool.capacity_reservation.name
        template["reservationPolicy"] = {"policy": "STRICT", "reservationIds": [name]}
    bounds = {"minNodeCount": pool.fewest, "maxNodeCount": pool.most} if pool.scales else pool.pool.node_count
    yield _group(plan, pool.key, bounds, template, needs)


def _group(
    plan: ClusterPlan,
    key: str,
    size: Mapping[str, int] | int,
    template: Mapping[str, object],
    needs: tuple[str, ...] = (),
) -> ManagedResource:
    """Of a fixed size, or with bounds within which Nebius scales it."""
    body = {
        "name": plan.name(key),
        "parentIdRef": plan.ref(CLUSTER),
        "version": _nebius(plan.cluster).kubernetes_version,
        **({"fixedNodeCount": size} if isinstance(size, int) else {"autoscaling": size}),
        "template": template,
    }
    return ManagedResource(key, _MK8S, "NodeGroup", body, needs=(CLUSTER, *needs), late_initialize=False)


def _access(cluster: InferenceCluster) -> CloudAccess:
    identity = _nebius(cluster).identity_secret_ref
    return CloudAccess(
        SecretKeyRef(f"{cluster.metadata.name}-kubeconfig", "kubeconfig"),
        SecretKeyRef(identity.name, identity.key),
        "NebiusServiceAccountCredentials",
    )


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    del cluster
    if pool.capacity_block is not None:
        return "capacityBlock: is for EKS; on Nebius write capacityReservation"
    if fabric_of(pool) == "InfiniBand" and (pool.fabric is None or not pool.fabric.name):
        return "fabric.name: Nebius has several InfiniBand fabrics; name that of the GPUs"
    return None


NEBIUS = Cloud(
    source="Nebius",
    providers=("provider-nebius",),
    provider_version="v1.0.1",
    credentials=lambda cluster: _nebius(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=_access,
    access_keys=(CLUSTER, _SYSTEM),
    no_capacity=r"(?i)not_?\s?enough_?\s?resources|resource_?exhausted|quota_?\s?(failure|exceeded)|exceed.* quota",
    kubernetes_provider="v1.3.0",
    pool_fault=_pool_fault,
    fabrics=frozenset({"InfiniBand"}),
)
