"""The state of one scheduling cycle: the fleet as it would be, and where the deployment's replicas are in it."""

from collections import Counter
from collections.abc import Iterable

from modelplane.api.meta import ClusterName
from modelplane.placement.cluster_info import ClusterInfo
from modelplane.placement.index import Reading
from modelplane.placement.repair import stranded
from modelplane.placement.request import CacheRequest, PlacementRequest, SpreadRule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo, PlacedReplica, ReplicaKey


class TopologyDomain:
    """How many replicas each value of a label has, among the values where a replica could run."""

    __slots__ = ("counts", "rule", "values")

    def __init__(self, rule: SpreadRule) -> None:
        self.rule = rule
        self.counts: Counter[str] = Counter()
        self.values: set[str] = set()

    def ahead(self, value: str) -> int:
        """How far a value is ahead of the emptiest one."""
        return self.counts[value] - min(self.counts[known] for known in self.values | {value})

    def evenness(self, value: str | None) -> float:
        return 0.0 if value is None else 1.0 / (1 + self.ahead(value))


class SchedulingCycle:
    """Mutable, and private to one call: `assumed` holds the clusters that differ from the fleet's."""

    __slots__ = (
        "_free_index",
        "_refusals",
        "_stranded",
        "assumed",
        "cheapest",
        "domains",
        "fleet",
        "load",
        "now",
        "reading",
        "request",
        "returning",
        "taken",
    )

    def __init__(self, request: PlacementRequest, fleet: Fleet, now: float) -> None:
        self.request = request
        self.fleet = fleet
        self.now = now
        self.assumed: dict[ClusterName, ClusterInfo] = {}
        self.load: Counter[ClusterName] = Counter()
        self.taken: dict[ClusterName, set[int]] = {}
        self.returning: frozenset[ClusterName] = frozenset()
        self.cheapest: dict[str, float] = {}
        self._free_index: dict[ClusterName, int] = {}
        """No lower index is free on a cluster: within a cycle indexes are only taken."""
        self._refusals: dict[bytes, str | None] = {}
        self._stranded: dict[ClusterName, frozenset[ReplicaKey]] = {}
        self.domains = tuple(TopologyDomain(rule) for rule in request.spread)
        self.reading = Reading()
        """What the plugins of the cycle read of clusters; the candidate queue sets it."""

    def info(self, name: ClusterName) -> ClusterInfo:
        return self.assumed.get(name) or self.fleet.infos[name]

    def stranded_on(self, name: ClusterName) -> frozenset[ReplicaKey]:
        """Replicas of anybody's that cannot run on a cluster as the fleet has it."""
        if name not in self._stranded:
            self._stranded[name] = stranded(self.fleet.infos[name])
        return self._stranded[name]

    def cannot_run(self, rendering: bytes) -> str | None:
        """Why clusters of a description cannot run the replicas of the deployment."""
        check = self.request.check
        if check is None:
            return None
        if rendering not in self._refusals:
            known = [self.cache(wanted) for wanted in self.request.caches]
            kinds = tuple(cache.artifact if cache is not None else "Weights" for cache in known)
            self._refusals[rendering] = check.refuse(rendering, kinds)
        return self._refusals[rendering]

    def cache(self, wanted: CacheRequest) -> CacheInfo | None:
        return self.fleet.caches.get((self.request.deployment.namespace, wanted.name))

    def stay(self, kept: Iterable[PlacedReplica], everyone: Iterable[PlacedReplica]) -> None:
        """Counts the replicas that stay. Indexes of all that exist are taken: a successor never shares a name."""
        for replica in everyone:
            self.taken.setdefault(replica.cluster, set()).add(replica.index)
        for replica in kept:
            self._count(replica)

    def release(self, gone: Iterable[PlacedReplica]) -> None:
        """Stop charging replicas that leave."""
        for replica in gone:
            self.assumed[replica.cluster] = self.info(replica.cluster).with_replicas(removed=[replica.id])

    def renew(self, replica: PlacedReplica) -> None:
        """Charge a replica as it will be instead of as it is."""
        self.assumed[replica.cluster] = self.info(replica.cluster).with_replicas([replica])

    def reserve(self, replica: PlacedReplica, evicted: Iterable[ReplicaKey] = ()) -> None:
        self.assumed[replica.cluster] = self.info(replica.cluster).with_replicas([replica], evicted)
        self.taken.setdefault(replica.cluster, set()).add(replica.index)
        self._count(replica)

    def lowest_free_index(self, cluster: ClusterName) -> int:
        taken, index = self.taken.get(cluster, set()), self._free_index.get(cluster, 0)
        while index in taken:
            index += 1
        self._free_index[cluster] = index
        return index

    def _count(self, replica: PlacedReplica) -> None:
        self.load[replica.cluster] += 1
        cluster = self.fleet.cluster(replica.cluster)
        for domain in self.domains:
            value = cluster.labels.get(domain.rule.key) if cluster is not None else None
            if value is not None:
                domain.counts[value] += 1
