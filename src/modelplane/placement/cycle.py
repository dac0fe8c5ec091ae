"""The state of one pass of the scheduler: the fleet as it would be, and where the deployment stands in it."""

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
        return self.counts[value] - min((self.counts[known] for known in self.values | {value}), default=0)

    def evenness(self, value: str | None) -> float:
        return 0.0 if value is None else 1.0 / (1 + self.ahead(value))


class SchedulingCycle:
    """Mutable, and private to one call: `trial` holds the sites that differ from the fleet's."""

    __slots__ = (
        "_stranded",
        "ask",
        "cheapest",
        "domains",
        "fleet",
        "load",
        "now",
        "reading",
        "returning",
        "taken",
        "trial",
    )

    def __init__(self, ask: PlacementRequest, fleet: Fleet, now: float) -> None:
        self.ask = ask
        self.fleet = fleet
        self.now = now
        self.trial: dict[ClusterName, ClusterInfo] = {}
        self.load: Counter[ClusterName] = Counter()
        self.taken: dict[ClusterName, set[int]] = {}
        self.returning: frozenset[ClusterName] = frozenset()
        self.cheapest: dict[str, float] = {}
        self._stranded: dict[ClusterName, frozenset[ReplicaKey]] = {}
        self.domains = tuple(TopologyDomain(rule) for rule in ask.spread)
        self.reading = Reading()
        """What the plugins of the pass read of clusters; the board sets it."""

    def site(self, name: ClusterName) -> ClusterInfo:
        return self.trial.get(name) or self.fleet.sites[name]

    def stranded_on(self, name: ClusterName) -> frozenset[ReplicaKey]:
        """Replicas of anybody's that cannot run on a cluster as the fleet has it."""
        if name not in self._stranded:
            self._stranded[name] = stranded(self.fleet.sites[name])
        return self._stranded[name]

    def cache(self, wanted: CacheRequest) -> CacheInfo | None:
        return self.fleet.caches.get((self.ask.deployment.namespace, wanted.name))

    def stay(self, kept: Iterable[PlacedReplica], everyone: Iterable[PlacedReplica]) -> None:
        """Count the replicas that stay. Indexes of all that exist are taken: a successor never shares a name."""
        for holding in everyone:
            self.taken.setdefault(holding.cluster, set()).add(holding.index)
        for holding in kept:
            self._count(holding)

    def release(self, gone: Iterable[PlacedReplica]) -> None:
        """Stop charging replicas that leave."""
        for holding in gone:
            if holding.cluster in self.fleet.sites:
                self.trial[holding.cluster] = self.site(holding.cluster).with_holdings(removed=[holding.id])

    def renew(self, holding: PlacedReplica) -> None:
        """Charge a replica as it will be instead of as it is."""
        self.trial[holding.cluster] = self.site(holding.cluster).with_holdings([holding])

    def seat(self, holding: PlacedReplica, evicted: Iterable[ReplicaKey] = ()) -> None:
        self.trial[holding.cluster] = self.site(holding.cluster).with_holdings([holding], evicted)
        self.taken.setdefault(holding.cluster, set()).add(holding.index)
        self._count(holding)

    def lowest_free_index(self, cluster: ClusterName) -> int:
        taken = self.taken.get(cluster, set())
        return next(index for index in range(len(taken) + 1) if index not in taken)

    def _count(self, holding: PlacedReplica) -> None:
        self.load[holding.cluster] += 1
        cluster = self.fleet.cluster(holding.cluster)
        for domain in self.domains:
            value = cluster.labels.get(domain.rule.key) if cluster is not None else None
            if value is not None:
                domain.counts[value] += 1
