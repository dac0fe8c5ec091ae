"""What a cloud's module says of a cluster: the managed resources that it is made of, as plain values.

A module lists resources with what they need. The engine makes the objects of them: names, references, readiness, the
order of removal, and what they report when they fail.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from modelplane.api.labels import GPU_TAINT, GPU_TAINTS, POOL
from modelplane.api.models import Accelerator, GkeCredentials, InferenceCluster, NodePool, Provisioning
from modelplane.api.names import make_name
from modelplane.api.objects import Json, Manifest, manifest
from modelplane.compose.caching.storage import SHARED_CLASS
from modelplane.compose.contract import Observed, Requirement

PREFIX = "cloud-"
CLUSTER = f"{PREFIX}cluster"
POOLS = f"{PREFIX}pool-"

NO_ZONES = "zones: GPUs are not in every zone of a region; name the zones of the pool"
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"
"""DRA drivers of GPUs."""
_PRESENT = {NVIDIA: {"nvidia.com/gpu.present": "true"}}
"""Labels by which a driver's DaemonSet finds its nodes where no other does."""
MAX_NAME = 30
"""Of a managed resource, which is its name on the cloud too. Service accounts of Google have the shortest."""


def pool_key(pool: NodePool) -> str:
    return f"{POOLS}{pool.name}"


def pool_part(pool: NodePool, part: str) -> str:
    """The key of what a pool needs besides its nodes. It leaves with the pool, whose name has no dot."""
    return f"{pool_key(pool)}.{part}"


def node_key(pool: NodePool, name: str) -> str:
    """The key of one node of a pool, where nodes are made one by one."""
    return pool_part(pool, f"node-{name}")


def is_declared(cluster: InferenceCluster, key: str) -> bool:
    """Whether a key is that of a pool of the spec, or of a part of one."""
    return key.partition(".")[0] in {pool_key(pool) for pool in cluster.spec.node_pools}


def shared_storage(provisioner: str, parameters: Mapping[str, object]) -> Json:
    """The StorageClass for volumes that several nodes mount."""
    return manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        SHARED_CLASS,
        provisioner=provisioner,
        parameters=dict(parameters),
        reclaimPolicy="Delete",
        allowVolumeExpansion=True,
        volumeBindingMode="Immediate",
    )


def fabric_of(pool: NodePool) -> str:
    return pool.fabric.type_ if pool.fabric is not None else "None"


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A GPU pool with the machines of its class."""

    pool: NodePool
    machine: str
    disk_gb: int | None
    """None where a machine's type has its disk."""
    accelerator: Accelerator
    driver: str = NVIDIA
    """Of its GPUs."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What else the class says of its machines."""

    @property
    def key(self) -> str:
        return pool_key(self.pool)

    @property
    def labels(self) -> dict[str, str]:
        return {POOL: self.pool.name, **_PRESENT.get(self.driver, {})}

    @property
    def taint(self) -> str:
        """Its key, as the pods of the vendor's devices tolerate it."""
        return GPU_TAINTS.get(self.driver.partition(".")[2], GPU_TAINT)

    @property
    def fewest(self) -> int:
        return self.pool.node_count if self.pool.min_node_count is None else self.pool.min_node_count

    @property
    def most(self) -> int:
        return self.pool.node_count if self.pool.max_node_count is None else self.pool.max_node_count

    @property
    def scales(self) -> bool:
        return self.pool.max_node_count is not None


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster to make on a cloud."""

    cluster: InferenceCluster
    pools: tuple[PoolPlan, ...]
    observed: Mapping[str, Observed] = field(default_factory=dict)
    """The managed resources that exist, for what only the cloud knows: an address, an identity."""
    config: Manifest | None = None
    """The provider configuration with the credentials; None until it is read, or where there is none."""

    def name(self, key: str) -> str:
        """The name of the managed resource of a key."""
        cluster = self.cluster.metadata.name
        short = key.removeprefix(PREFIX)
        return make_name(f"{cluster}-{short}", "InferenceCluster", cluster, key, limit=MAX_NAME)

    def ref(self, key: str) -> Json:
        return {"name": self.name(key)}

    def at_provider(self, key: str) -> Manifest:
        """What the cloud reports of a resource; empty until it does."""
        found = self.observed.get(key)
        status = found.manifest.get("status") if found is not None else None
        there = status.get("atProvider") if isinstance(status, Mapping) else None
        return there if isinstance(there, Mapping) else {}

    def stated(self, key: str, field_name: str) -> str:
        """A field of a resource as it was last desired, for a fact that is no longer to be had elsewhere."""
        found = self.observed.get(key)
        spec = found.manifest.get("spec") if found is not None else None
        stated = spec.get("forProvider") if isinstance(spec, Mapping) else None
        return str(stated.get(field_name) or "") if isinstance(stated, Mapping) else ""


@dataclass(frozen=True, slots=True)
class ManagedResource:
    key: str
    api_version: str
    kind: str
    body: Mapping[str, object]
    """spec.forProvider."""
    initial: Mapping[str, object] = field(default_factory=dict)
    """spec.initProvider: what counts when it is made and belongs to an autoscaler afterwards."""
    needs: tuple[str, ...] = ()
    """Keys of the resources that are deleted after it."""
    secret: str = ""
    """The Secret for its connection details."""
    late_initialize: bool = True
    external_name: str = ""
    """Its name on the cloud. Empty: the same."""


@dataclass(frozen=True, slots=True)
class SecretKeyRef:
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class CloudAccess:
    """How a cluster is reached once it is made."""

    kubeconfig: SecretKeyRef
    identity: SecretKeyRef | None = None
    identity_type: str = ""


def kubeconfig_access(cluster: InferenceCluster) -> CloudAccess:
    """By the kubeconfig alone, which the provider writes."""
    return CloudAccess(SecretKeyRef(f"{cluster.metadata.name}-kubeconfig", "kubeconfig"))


def reservation_fault(pool: NodePool, cloud: str) -> str | None:
    """Of a pool on a cloud where no capacity can be reserved."""
    wants = pool.capacity_block is not None or pool.capacity_reservation is not None
    return f"capacityReservation: {cloud} reserves no capacity" if wants else None


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud that clusters are made on."""

    source: str
    providers: tuple[str, ...]
    """The packages of its managed resources."""
    provider_version: str
    credentials: Callable[[InferenceCluster], GkeCredentials | None]
    plan_pool: Callable[[NodePool, Provisioning | None], PoolPlan | None]
    """None where the class has no machine of the cloud."""
    resources: Callable[[ClusterPlan], Iterator[ManagedResource]]
    access: Callable[[InferenceCluster], CloudAccess]
    access_keys: tuple[str, ...]
    """Resources without which the cluster cannot be reached."""
    no_capacity: str
    """A pattern of messages that say that the cloud has no nodes to give, for now or for this account. "no capacity"
    says so on every cloud."""
    makes_machines: bool = True
    """Whether the machines of its nodes are made with them. Otherwise they are there, and no class names them."""
    kubernetes_provider: str = ""
    """The oldest version of provider-kubernetes that reaches its clusters, where that is newer than ours."""
    cluster_fault: Callable[[InferenceCluster], str | None] = lambda _: None
    """Why such a cluster cannot be made: a field, a colon and a sentence."""
    pool_fault: Callable[[InferenceCluster, NodePool], str | None] = lambda *_: None
    """Why such a pool cannot be made: its field, a colon and a sentence."""
    machine_fault: Callable[[PoolPlan], str | None] = lambda _: None
    """Why a pool cannot be made of the machines of its class, as a sentence."""
    drivers: frozenset[str] = frozenset({NVIDIA})
    """Of the GPUs that its nodes may have."""
    fabrics: frozenset[str] = frozenset()
    """Fast networks that its pools may have."""
    facts: Callable[[ClusterPlan], Mapping[str, str]] = lambda _: {}
    storage: Callable[[ClusterPlan], Json | None] = lambda _: None
    """The StorageClass for volumes that several nodes mount, once what it names is known."""
    config_requirement: Callable[[InferenceCluster], Requirement | None] = lambda _: None
    """The provider configuration, where it is read."""

    def fault(self, cluster: InferenceCluster) -> str | None:
        """Why such a cluster cannot be made, as a sentence that names the field."""
        found = ((index, self._pool_fault(cluster, pool)) for index, pool in enumerate(cluster.spec.node_pools))
        of_pools = next((f"spec.nodePools[{index}].{fault}" for index, fault in found if fault is not None), None)
        return of_pools or self.cluster_fault(cluster)

    def _pool_fault(self, cluster: InferenceCluster, pool: NodePool) -> str | None:
        fabric = fabric_of(pool)
        if fabric != "None" and fabric not in self.fabrics:
            return f"fabric.type: {self.source} has no {fabric}"
        return self.pool_fault(cluster, pool)
