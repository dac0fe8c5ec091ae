"""What placement reads: clusters with their pools, replicas that hold places, and staged caches.

All are values. A host makes them from objects; nothing in here is fetched. See `snapshot` for the whole.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec

from modelplane.api.labels import selects
from modelplane.api.meta import ClusterName, Key, PoolName
from modelplane.api.models import LabelSelector, NodeResources
from modelplane.api.names import make_name
from modelplane.placement.hardware import Hardware
from modelplane.placement.matching import Claim

Labels = tuple[tuple[str, str], ...]
_MAX_ASSIGNMENTS = 16_384


class Effect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


DRAIN_PARALLELISM = 4
TAINT_DEADLINE_S = 3600.0


class PlacementTaint(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    key: str
    value: str
    effect: Effect
    since: float | None = None
    """When it was added, in seconds of the epoch. Tolerated time runs from here; unknown, it does not run out."""
    parallelism: int = DRAIN_PARALLELISM
    """Of a NoExecute taint: most replicas that move at a time."""
    deadline_s: float | None = TAINT_DEADLINE_S
    """Of a NoExecute taint: after this time replicas go without a successor. None: they wait for one."""


class Price(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What one node costs for one hour."""

    per_node_hour: float
    currency: str = "USD"


class Pool(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    name: PoolName
    nodes: int
    """Nodes that placement may count on, those included that the pool would still scale up to."""
    hardware: Hardware
    taints: tuple[PlacementTaint, ...] = ()
    price: Price | None = None
    nodes_now: int | None = None
    """Nodes that are there, where that differs from what may be counted on."""
    desired_nodes: int | None = None
    """Nodes that it should have, where some are missing: replicas keep their places on those."""
    held_by_others: tuple[tuple[str, int], ...] = ()
    """Devices of each kind that replicas cannot have: others hold them, or the cluster does not have them."""
    claims_of_others: tuple[tuple[str, int, int], ...] = ()
    """Of those, what is known to lie together: the kind, the devices that a claim has on its node, and such claims."""
    short_since: float | None = None
    """Since when fewer nodes are there than it was declared with, in seconds of the epoch."""
    domains: int | None = None
    """Domains that have all their nodes, where that was observed."""
    node_resources: NodeResources | None = None
    """What a node has besides its devices. Placement itself does not read it."""

    def units(self, nodes: int) -> int:
        """So many nodes in what the pool is counted in: its domains, or else its nodes."""
        domain = self.hardware.domain
        return nodes if domain is None else nodes // domain.nodes


class BoundPods(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Pods that are known to be on a node, by the devices that each of them claims."""

    pool: PoolName
    node: str
    devices: int
    pods: int
    replica: str = ""
    """The digest of the replica that they are of; empty for pods of others."""
    device: str = ""
    """For pods of others: the kind of their devices."""


class Packing(StrEnum):
    """Whether the cluster's own scheduler is trusted to pack pods tightly."""

    ANY = "Any"
    BIN_PACK = "BinPack"


class QueueInfo(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The queue that pods are submitted to, as the in-cluster scheduler reports it."""

    name: str
    quota: int
    """Devices that may be used; negative for no limit."""
    others: int = 0
    """Devices that are used of it by something else than replicas."""


class NamespaceQueues(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Queues of a cluster that has one for each namespace."""

    template: str
    """Their name, with `{{ .Namespace }}`."""
    queues: tuple[QueueInfo, ...] = ()
    complete: bool = False
    """Whether these are all, so that a namespace whose queue is not among them has none."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: ClusterName
    pools: tuple[Pool, ...] = ()
    unpublished_pools: tuple[PoolName, ...] = ()
    """Pools that it declares and that its status does not have. Nothing new goes there; replicas on them stay."""
    hardware_known: bool = True
    """Whether its pools are those that it declares, of the classes that it declares."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    placement_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Labels of everything that is placed there. Placement itself does not read them."""
    ready: bool = True
    unready_since: float | None = None
    """When it stopped being ready, in seconds of the epoch. Unknown, no grace period runs out."""
    created: float | None = None
    """When its InferenceCluster was created, in seconds of the epoch. Known only while it is not ready."""
    cordoned: bool = False
    deletion: str = ""
    """What its deletion waits for. Nothing new goes there; empty: it is not being deleted."""
    taints: tuple[PlacementTaint, ...] = ()
    packing: Packing = Packing.ANY
    priorities: tuple[tuple[str, int], ...] = ()
    """The PriorityClasses that may be used, with their values. Empty allows any; unknown ones are worth 0."""
    default_priority: str | None = None
    quotas: tuple[tuple[str, int], ...] = ()
    """Devices that the replicas of a namespace may hold here; "*" stands for every namespace that is not listed."""
    queue: QueueInfo | None = None
    """The queue of all namespaces."""
    namespace_queues: NamespaceQueues | None = None
    bound: tuple[BoundPods, ...] = ()
    """What is known of where pods are. All others may be on any node of their pool."""
    faulty: tuple[tuple[str, str], ...] = ()
    """Digests of replicas that hold a faulty device, with what is wrong with it."""
    rendering: bytes = b""
    """All that decides what can run there, opaque to placement: see `ClusterCheck`. Empty: anything can."""
    fault: str = ""
    """Why it could not be read. Nothing new goes there; replicas on it stay as they are."""

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def priority_value(self, name: str | None) -> int:
        wanted = name or self.default_priority or ""
        for known, value in self.priorities:
            if known == wanted:
                return value
        return 0

    def quota_of(self, namespace: str) -> int | None:
        quotas = dict(self.quotas)
        return quotas.get(namespace, quotas.get("*"))


class MemberAssignment(msgspec.Struct, frozen=True, gc=False):
    pods: int
    """Pods of this member in all copies of the engine."""
    claims: tuple[Claim, ...] = ()


class PoolAssignment(msgspec.Struct, frozen=True, gc=False):
    """The pool of one engine of a replica, and what its members claim there."""

    engine: str
    pool: PoolName
    members: tuple[MemberAssignment, ...] = ()


@lru_cache(maxsize=_MAX_ASSIGNMENTS)
def shared_assignments(assignments: tuple[PoolAssignment, ...]) -> tuple[PoolAssignment, ...]:
    """Equal assignments as one value, so that what is found of them need not be found again."""
    return assignments


ReplicaKey = tuple[Key, ClusterName, int]


class PlacedReplica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A replica that has a place: whether it runs, starts or was only just decided."""

    deployment: Key
    cluster: ClusterName
    index: int
    assignments: tuple[PoolAssignment, ...]
    serving: bool = False
    idle_since: float | None = None
    """Since when it does not serve, in seconds of the epoch. Unknown, no grace period runs out."""
    created: str = ""
    """When the replica was made, as Kubernetes writes it; empty while that is not known, which counts as youngest."""
    priority: str | None = None
    protected: bool = False
    leaving: bool = False
    """It is being deleted: it holds its devices until it is gone, and will not come back."""
    preempts: tuple[str, ...] = ()
    """Digests of the replicas that this one preempts."""
    fault: str = ""
    """Why it could not be read; what it holds is not known then."""
    cluster_missing: bool = False
    """Its cluster was read by name and does not exist. A fleet that lacks the cluster may only be incomplete."""

    @property
    def id(self) -> ReplicaKey:
        return self.deployment, self.cluster, self.index

    @property
    def devices(self) -> int:
        return sum(
            member.pods * claim.count
            for assignment in self.assignments
            for member in assignment.members
            for claim in member.claims
            if claim.device_class is not None
        )

    @property
    def digest(self) -> str:
        """Names the replica to other tenants without telling whose it is. A successor in its place has another."""
        key = self.deployment
        return make_name("r", key.namespace, key.name, key.uid, self.cluster, str(self.index), self.created)


class CacheInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A ModelCache: the clusters that hold it, and those that are meant to."""

    namespace: str
    name: str
    staged: frozenset[ClusterName] = frozenset()
    selector: LabelSelector | None = None
    artifact: str = "Weights"
    """What is staged."""
    key: str = ""
    """Names its source as it is written now."""
    keys: Mapping[ClusterName, str] = {}
    """The key of what is staged on each cluster, where that is not the newest one."""
    awaited: frozenset[ClusterName] = frozenset()
    """Clusters that fetch it and will not have it soon: nothing is placed there until they do."""
    stalled: tuple[tuple[str, frozenset[ClusterName]], ...] = ()
    """Why fetching fails at the moment, and on which of the awaited clusters."""
    refused: tuple[tuple[str, frozenset[ClusterName]], ...] = ()
    """Why it is not staged, and where that is so."""
    settled: bool = True
    """Whether it was reconciled; until then nobody knows where it will be."""
    fault: str = ""
    """Why it could not be read; where it is staged is not known then."""

    def reaches(self, cluster: Cluster) -> bool:
        """Whether it is staged on the cluster or will be."""
        if cluster.name in self.staged:
            return True
        return self.refusal(cluster.name) is None and selects(self.selector, cluster.labels)

    def refusal(self, cluster: ClusterName) -> str | None:
        return next((why for why, where in self.refused if cluster in where), None)

    def stall(self, cluster: ClusterName) -> str | None:
        return next((why for why, where in self.stalled if cluster in where), None)

    @property
    def facts(self) -> tuple[frozenset[ClusterName], ...]:
        """The sets of clusters that decisions tell apart."""
        return (self.staged, self.awaited, *(where for _, where in (*self.refused, *self.stalled)))
