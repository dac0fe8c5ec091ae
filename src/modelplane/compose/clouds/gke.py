"""Google Kubernetes Engine.

    Network ─ Subnetwork ─ Cluster ─ NodePool (system, one for each GPU pool)
    ProjectService (Filestore)        ServiceAccount ─ ServiceAccountKey, ProjectIAMMember

GKE's client certificates carry no rights, so the cluster is reached as a service account of its own. Nodes get no
device plugin from GKE: a second owner of the GPUs beside DRA would hand them out twice. The plugin would install the
driver too, so the stack does that.
"""

from collections.abc import Iterator, Mapping

from modelplane.api.models import ClusterGke, InferenceCluster, NodePool, Provisioning
from modelplane.api.objects import Json, text_at
from modelplane.compose.clouds.resources import (
    CLUSTER,
    NO_ZONES,
    PREFIX,
    Cloud,
    CloudAccess,
    ClusterPlan,
    ManagedResource,
    PoolPlan,
    SecretKeyRef,
    shared_storage,
)
from modelplane.compose.contract import Requirement

_COMPUTE, _CONTAINER = "compute.gcp.m.upbound.io/v1beta1", "container.gcp.m.upbound.io/v1beta1"
_PLATFORM = "cloudplatform.gcp.m.upbound.io/v1beta1"
_NETWORK, _SUBNET, _FILESTORE = f"{PREFIX}network", f"{PREFIX}subnet", f"{PREFIX}filestore"
_ACCOUNT, _ACCOUNT_KEY, _MEMBER = f"{PREFIX}account", f"{PREFIX}account-key", f"{PREFIX}member"
_SYSTEM = f"{PREFIX}system"
_PODS, _SERVICES = "pods", "services"
_SYSTEM_MACHINE = "e2-standard-4"
_SYSTEM_NODES = 2
_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_CONFIG_GROUP = "gcp.m.upbound.io"
_DRIVER_ROOT = "/home/kubernetes/bin/nvidia"


def _gke(cluster: InferenceCluster) -> ClusterGke:
    found = cluster.spec.cluster.gke
    assert found is not None  # noqa: S101  the API requires the block of the source
    return found


def _plan_pool(pool: NodePool, provisioning: Provisioning | None) -> PoolPlan | None:
    found = provisioning.gke if provisioning is not None else None
    return None if found is None else PoolPlan(pool, found.machine_type, found.disk_size_gb, found.accelerator)


def _resources(plan: ClusterPlan) -> Iterator[ManagedResource]:
    yield from _network(plan)
    yield from _identity(plan)
    yield _cluster(plan)
    yield _system_pool(plan)
    for pool in plan.pools:
        yield _pool(plan, pool)


def _network(plan: ClusterPlan) -> Iterator[ManagedResource]:
    yield ManagedResource(_NETWORK, _COMPUTE, "Network", {"autoCreateSubnetworks": False, "routingMode": "REGIONAL"})
    ranges = [
        {"rangeName": _PODS, "ipCidrRange": "10.1.0.0/16"},
        {"rangeName": _SERVICES, "ipCidrRange": "10.2.0.0/16"},
    ]
    body = {
        "region": _gke(plan.cluster).region,
        "networkRef": plan.ref(_NETWORK),
        "ipCidrRange": "10.0.0.0/22",
        "secondaryIpRange": ranges,
        "privateIpGoogleAccess": True,
    }
    yield ManagedResource(_SUBNET, _COMPUTE, "Subnetwork", body, needs=(_NETWORK,))
    # Others of the project may use the API after this cluster.
    api = {"service": "file.googleapis.com", "disableOnDestroy": False}
    yield ManagedResource(_FILESTORE, _PLATFORM, "ProjectService", api)


def _identity(plan: ClusterPlan) -> Iterator[ManagedResource]:
    name = plan.cluster.metadata.name
    account = {"displayName": f"Modelplane on {name}", "description": f"InferenceCluster {name}"}
    yield ManagedResource(_ACCOUNT, _PLATFORM, "ServiceAccount", account)
    key = {"serviceAccountIdRef": plan.ref(_ACCOUNT)}
    secret = _access(plan.cluster).identity
    yield ManagedResource(
        _ACCOUNT_KEY, _PLATFORM, "ServiceAccountKey", key, needs=(_ACCOUNT,), secret=secret.name if secret else ""
    )
    project, member = _project(plan), _member(plan)
    if project and member:
        body = {"project": project, "member": member, "role": "roles/container.admin"}
        yield ManagedResource(_MEMBER, _PLATFORM, "ProjectIAMMember", body, needs=(_ACCOUNT,))


def _project(plan: ClusterPlan) -> str:
    """As the cluster says, or the provider configuration, or as it was while that could be read."""
    said = _gke(plan.cluster).project or text_at(plan.config or {}, "spec", "projectID")
    return said or plan.stated(_MEMBER, "project")


def _member(plan: ClusterPlan) -> str:
    """The account's name is known once it exists."""
    email = text_at(plan.at_provider(_ACCOUNT), "email")
    return f"serviceAccount:{email}" if email else plan.stated(_MEMBER, "member")


def _cluster(plan: ClusterPlan) -> ManagedResource:
    gke, project = _gke(plan.cluster), _project(plan)
    body: Json = {
        "location": gke.region,
        "minMasterVersion": gke.kubernetes_version,
        "releaseChannel": {"channel": "REGULAR"},
        "networkRef": plan.ref(_NETWORK),
        "subnetworkRef": plan.ref(_SUBNET),
        "networkingMode": "VPC_NATIVE",
        "ipAllocationPolicy": {"clusterSecondaryRangeName": _PODS, "servicesSecondaryRangeName": _SERVICES},
        "removeDefaultNodePool": True,
        "initialNodeCount": 1,
        # Terraform's default keeps the cluster from being deleted for ever.
        "deletionProtection": False,
        "addonsConfig": {"gcpFilestoreCsiDriverConfig": {"enabled": True}},
    }
    if project:
        body["workloadIdentityConfig"] = {"workloadPool": f"{project}.svc.id.goog"}
    secret = _access(plan.cluster).kubeconfig.name
    return ManagedResource(
        CLUSTER, _CONTAINER, "Cluster", body, needs=(_NETWORK, _SUBNET), secret=secret, late_initialize=False
    )


def _system_pool(plan: ClusterPlan) -> ManagedResource:
    node = {"machineType": _SYSTEM_MACHINE, "diskSizeGb": 100, "oauthScopes": _SCOPES}
    body = {
        "clusterRef": plan.ref(CLUSTER),
        "location": _gke(plan.cluster).region,
        "autoscaling": {"totalMinNodeCount": 1, "totalMaxNodeCount": _SYSTEM_NODES, "locationPolicy": "ANY"},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "nodeConfig": node,
    }
    return _node_pool(_SYSTEM, body, {"initialNodeCount": 1})


def _pool(plan: ClusterPlan, pool: PoolPlan) -> ManagedResource:
    body: Json = {
        "clusterRef": plan.ref(CLUSTER),
        "location": _gke(plan.cluster).region,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "nodeConfig": _node_config(pool),
        "nodeLocations": list(pool.pool.zones),
    }
    if not pool.scales:
        # GKE counts nodes for each zone.
        return _node_pool(pool.key, {**body, "nodeCount": _per_zone(pool)}, {})
    sizes = {"totalMinNodeCount": pool.fewest, "totalMaxNodeCount": pool.most, "locationPolicy": "ANY"}
    return _node_pool(pool.key, {**body, "autoscaling": sizes}, {"initialNodeCount": _per_zone(pool)})


def _per_zone(pool: PoolPlan) -> int:
    return -(-pool.pool.node_count // len(pool.pool.zones))


def _node_pool(key: str, body: Mapping[str, object], initial: Mapping[str, object]) -> ManagedResource:
    return ManagedResource(key, _CONTAINER, "NodePool", body, initial, needs=(CLUSTER,), late_initialize=False)


def _node_config(pool: PoolPlan) -> Json:
    driver = {"gpuDriverVersion": "INSTALLATION_DISABLED"}
    accelerator = {
        "type": pool.accelerator.type_,
        "count": pool.accelerator.count,
        "gpuDriverInstallationConfig": driver,
    }
    labels = {
        **pool.labels,
        "gke-no-default-nvidia-gpu-device-plugin": "true",
        # The autoscaler knows by it that a node which does not exist yet will publish devices.
        "cloud.google.com/gke-nvidia-gpu-dra-driver": "true",
    }
    made: Json = {
        "machineType": pool.machine,
        "diskSizeGb": pool.disk_gb,
        "imageType": "COS_CONTAINERD",
        "oauthScopes": _SCOPES,
        "guestAccelerator": [accelerator],
        "labels": labels,
        "taint": [{"key": pool.taint, "value": "present", "effect": "NO_SCHEDULE"}],
    }
    reservation = pool.pool.capacity_reservation
    if reservation is not None:
        made["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [reservation.name],
        }
    return made


def _access(cluster: InferenceCluster) -> CloudAccess:
    name = cluster.metadata.name
    return CloudAccess(
        SecretKeyRef(f"{name}-kubeconfig", "kubeconfig"),
        SecretKeyRef(f"{name}-identity", "private_key"),
        "GoogleApplicationCredentials",
    )


def _storage(plan: ClusterPlan) -> Json | None:
    """On the cluster's own network: GKE's classes make volumes in `default`, which its nodes do not reach."""
    return shared_storage("filestore.csi.storage.gke.io", {"tier": "zonal", "network": plan.name(_NETWORK)})


def _config_requirement(cluster: InferenceCluster) -> Requirement | None:
    gke = _gke(cluster)
    if gke.project is not None:
        return None
    credentials = gke.credentials
    name = credentials.name if credentials else "default"
    return Requirement(f"{_CONFIG_GROUP}/v1beta1", "ClusterProviderConfig", name=name)


def _pool_fault(cluster: InferenceCluster, pool: NodePool) -> str | None:
    del cluster
    if not pool.zones:
        return NO_ZONES
    if pool.capacity_block is not None:
        return "capacityBlock: is for EKS; on GKE write capacityReservation"
    return None


GKE = Cloud(
    source="GKE",
    providers=("provider-gcp-compute", "provider-gcp-container", "provider-gcp-cloudplatform"),
    provider_version="v3.0.0",
    credentials=lambda cluster: _gke(cluster).credentials,
    plan_pool=_plan_pool,
    resources=_resources,
    access=_access,
    access_keys=(CLUSTER, _SYSTEM, _ACCOUNT_KEY, _MEMBER),
    no_capacity=r"(?i)stockout|does not have enough resources|ZONE_RESOURCE_POOL_EXHAUSTED|QUOTA_EXCEEDED|"
    r"quota .*exceeded",
    pool_fault=_pool_fault,
    facts=lambda _: {"driverRoot": _DRIVER_ROOT},
    storage=_storage,
    config_requirement=_config_requirement,
)
