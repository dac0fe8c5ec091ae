"""The fleet as a value: clusters, pools, devices, caches, and who holds what.

A host builds one from the objects that came with a call, or keeps one by watching. Nothing changes in place: an update
makes a new fleet that shares everything it did not touch, so a decision may keep the one it was made on. Updates cost
as much as they touch, plus copies of flat tables; nothing that is asked of one deployment reads the whole fleet.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.meta import ClusterName, Key
from modelplane.placement.cluster_info import ClusterInfo, make_site
from modelplane.placement.index import Cells, Groups, build_cells, build_groups, update_cells
from modelplane.placement.values import CacheInfo, Cluster, PlacedReplica, ReplicaKey

CacheId = tuple[str, str]
"""Namespace and name."""


class Fleet:
    __slots__ = ("_cells", "_groups", "_owned", "caches", "sites")

    def __init__(
        self,
        sites: Mapping[ClusterName, ClusterInfo],
        owned: Mapping[Key, tuple[PlacedReplica, ...]],
        caches: Mapping[CacheId, CacheInfo],
        cells: Cells,
        groups: Groups | None = None,
    ) -> None:
        """Use `Fleet.of`."""
        self.sites = sites
        self.caches = caches
        self._owned = owned
        self._cells = cells
        self._groups = groups

    @classmethod
    def of(
        cls, clusters: Iterable[Cluster] = (), holdings: Iterable[PlacedReplica] = (), caches: Iterable[CacheInfo] = ()
    ) -> "Fleet":
        """Order does not matter."""
        known = {cluster.name: cluster for cluster in clusters}
        by_cluster: dict[ClusterName, list[PlacedReplica]] = {}
        by_owner: dict[Key, list[PlacedReplica]] = {}
        for holding in sorted(holdings, key=_holding_id):
            by_cluster.setdefault(holding.cluster, []).append(holding)
            by_owner.setdefault(holding.deployment, []).append(holding)
        names = sorted(known.keys() | by_cluster.keys())
        sites = {name: make_site(known.get(name), by_cluster.get(name, ())) for name in names}
        owned = {key: tuple(found) for key, found in by_owner.items()}
        staged = {(cache.namespace, cache.name): cache for cache in caches}
        groups = build_groups(sites)
        return cls(sites, owned, staged, build_cells(groups), groups)

    def __len__(self) -> int:
        """How many clusters there are."""
        return sum(1 for site in self.sites.values() if site.cluster is not None)

    def __bool__(self) -> bool:
        """A fleet without clusters is a fleet all the same."""
        return True

    def cluster(self, name: str) -> Cluster | None:
        site = self.sites.get(ClusterName(name))
        return site.cluster if site is not None else None

    @property
    def clusters(self) -> Iterator[Cluster]:
        """By name."""
        return (site.cluster for _, site in sorted(self.sites.items()) if site.cluster is not None)

    @property
    def holdings(self) -> Iterator[PlacedReplica]:
        """By deployment, cluster and index."""
        return (holding for _, found in sorted(self._owned.items()) for holding in found)

    def owned_by(self, deployment: Key) -> tuple[PlacedReplica, ...]:
        """The replicas of a deployment, by cluster and index."""
        return self._owned.get(deployment, ())

    @property
    def cells(self) -> Cells:
        return self._cells

    @property
    def groups(self) -> Groups:
        """Clusters whose pools are alike. After an update, worked out again when first asked for."""
        if self._groups is None:
            self._groups = build_groups(self.sites)
        return self._groups

    def with_cluster(self, cluster: Cluster) -> "Fleet":
        before = self.sites.get(cluster.name)
        return self._replaced({cluster.name: make_site(cluster, before.held.values() if before else ())})

    def without_cluster(self, name: ClusterName) -> "Fleet":
        before = self.sites.get(name)
        if before is None:
            return self
        return self._replaced({name: make_site(None, before.held.values())})

    def with_holdings(self, added: Iterable[PlacedReplica] = (), removed: Iterable[ReplicaKey] = ()) -> "Fleet":
        """The fleet after some replicas left and others came. One that is there already is replaced."""
        come: dict[ClusterName, list[PlacedReplica]] = {}
        gone: dict[ClusterName, list[ReplicaKey]] = {}
        owners: dict[Key, dict[ReplicaKey, PlacedReplica | None]] = {}
        for holding_id in removed:
            gone.setdefault(holding_id[1], []).append(holding_id)
            owners.setdefault(holding_id[0], {})[holding_id] = None
        for holding in added:
            come.setdefault(holding.cluster, []).append(holding)
            owners.setdefault(holding.deployment, {})[holding.id] = holding
        changed = {
            name: (self.sites.get(name) or make_site(None)).with_holdings(come.get(name, ()), gone.get(name, ()))
            for name in come.keys() | gone.keys()
        }
        return self._replaced(changed, self._own(owners))

    def with_cache(self, cache: CacheInfo) -> "Fleet":
        caches = {**self.caches, (cache.namespace, cache.name): cache}
        return Fleet(self.sites, self._owned, caches, self._cells)

    def without_cache(self, cache: CacheId) -> "Fleet":
        caches = {key: found for key, found in self.caches.items() if key != cache}
        return Fleet(self.sites, self._owned, caches, self._cells)

    def _own(
        self, changes: Mapping[Key, Mapping[ReplicaKey, PlacedReplica | None]]
    ) -> dict[Key, tuple[PlacedReplica, ...]]:
        owned = dict(self._owned)
        for key, change in changes.items():
            merged: dict[ReplicaKey, PlacedReplica | None] = {holding.id: holding for holding in owned.get(key, ())}
            merged.update(change)
            left = [holding for holding in merged.values() if holding is not None]
            if left:
                owned[key] = tuple(sorted(left, key=_holding_id))
            else:
                owned.pop(key, None)
        return owned

    def _replaced(
        self, changed: Mapping[ClusterName, ClusterInfo], owned: Mapping[Key, tuple[PlacedReplica, ...]] | None = None
    ) -> "Fleet":
        cells = update_cells(self._cells, ((name, self.sites.get(name), site) for name, site in changed.items()))
        sites = {**self.sites, **changed}
        for name, site in changed.items():
            if site.cluster is None and not site.held:
                del sites[name]
        return Fleet(sites, self._owned if owned is None else owned, self.caches, cells)


def _holding_id(holding: PlacedReplica) -> ReplicaKey:
    return holding.id
