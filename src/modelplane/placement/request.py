"""What a deployment requests of the fleet, in the one form that every spec of a deployment lowers to.

A replica is a tuple of engines; an engine runs `copies` times; a copy is made of members; a member is `nodes` pods. All
engines of a replica land on one cluster, all members of an engine on one pool. Pods are counted by the devices that
they claim: two of them share a node where the devices suffice.
"""

from typing import Protocol

import msgspec

from modelplane.api.meta import ClusterName, Key
from modelplane.api.models import LabelSelector, Toleration
from modelplane.placement.hardware import CapacityRequests


class NodeDeviceRequest(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """`count` distinct devices of one node, each of which meets every selector and has the capacity."""

    name: str
    count: int
    selectors: tuple[str, ...]
    capacity: CapacityRequests = ()
    """What is requested of each device. Of a device that may be shared, that much is taken."""


class AttributeMatch(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """One value of an attribute for all devices of some requests of a pod."""

    attribute: str
    requests: tuple[str, ...] = ()
    """Their names; empty for all."""


class MemberRequest(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    nodes: int
    requests: tuple[NodeDeviceRequest, ...]
    """Empty for a member that claims nothing; it follows its engine to the pool."""
    matches: tuple[AttributeMatch, ...] = ()


class EngineRequest(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    name: str
    copies: int
    members: tuple[MemberRequest, ...]


class SpreadRule(msgspec.Struct, frozen=True):
    """Keep the replicas even over the values of a cluster label. `hard` waits, otherwise it is only preferred."""

    key: str
    max_skew: int = 1
    hard: bool = True


class Preference(msgspec.Struct, frozen=True):
    weight: int
    selector: LabelSelector


class FailoverPolicy(msgspec.Struct, frozen=True):
    """What happens when a cluster fails: it is given `grace_s`, then its replicas are replaced, or not."""

    replace: bool = True
    grace_s: float = 300.0


class CacheRequest(msgspec.Struct, frozen=True):
    name: str
    required: bool = True
    """Whether clusters that neither hold the cache nor will are refused, or only score less."""


class ScoreWeights(msgspec.Struct, frozen=True):
    """How much each score counts. 0 turns one off; None leaves it to the profile."""

    spread: float | None = None
    staged: float | None = None
    headroom: float | None = None
    price: float | None = None
    stickiness: float | None = None


class RebalancePolicy(msgspec.Struct, frozen=True):
    """Which better places serving replicas move to: one at a time, and none within the interval after another."""

    tier: bool = False
    spread: bool = False
    cost: bool = False
    min_saving: float = 0.2
    """The share of its price that a place must be cheaper by."""
    interval_s: float = 600.0


class ClusterCheck(Protocol):
    """Whoever knows what clusters can run."""

    def refuse(self, rendering: bytes, artifacts: tuple[str, ...], /) -> str | None:
        """Why clusters that have this description cannot run a replica with caches of these kinds; None: they can."""


class PlacementRequest(msgspec.Struct, frozen=True, kw_only=True):
    deployment: Key
    replicas: int
    engines: tuple[EngineRequest, ...]
    cluster_selector: LabelSelector | None = None
    required: tuple[LabelSelector, ...] = ()
    preferred: tuple[Preference, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    tiers: tuple[LabelSelector, ...] = ()
    """Clusters by preference: each tier is filled before the next. Empty: all are alike."""
    rebalance: RebalancePolicy | None = None
    tolerations: tuple[Toleration, ...] = ()
    failover: FailoverPolicy = FailoverPolicy()
    caches: tuple[CacheRequest, ...] = ()
    weights: ScoreWeights = ScoreWeights()
    priority: str | None = None
    may_preempt: bool = False
    protected: bool = False
    nominated_victims: frozenset[str] = frozenset()
    """Digests of the victims that the deployment's status nominates. Only those are evicted."""
    check: ClusterCheck | None = None
    """Says which clusters cannot run the replicas, by `Cluster.rendering`. None: all can."""
    outdated: frozenset[tuple[ClusterName, int]] = frozenset()
    """Cluster and index of the replicas to replace because they have an older revision."""
    rolling_out: bool = False
    """Some replicas have an older revision, whether they are to be replaced now or not: see `rebalance`."""
