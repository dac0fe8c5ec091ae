"""The fleet as a value: clusters, pools, devices, caches, and who holds what.

A host builds one from the objects that came with a call, or keeps one by watching. Nothing changes in place: an update
makes a new fleet that shares everything it did not touch, so a decision may keep the one it was made on. Updates cost
as much as they touch, plus copies of flat tables; no query about one deployment reads the whole fleet.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from modelplane.api.meta import ClusterName, Key
from modelplane.placement.cluster_info import ClusterInfo, make_cluster_info
from modelplane.placement.index import (
    EquivalenceClasses,
    Groups,
    build_equivalence_classes,
    build_groups,
    update_equivalence_classes,
)
from modelplane.placement.values import CacheInfo, Cluster, PlacedReplica, ReplicaKey

CacheId = tuple[str, str]
"""Namespace and name."""


class Fleet:
    __slots__ = ("_equivalence_classes", "_groups", "_owned", "caches", "infos", "without_pools")

    def __init__(
        self,
        infos: Mapping[ClusterName, ClusterInfo],
        owned: Mapping[Key, tuple[PlacedReplica, ...]],
        caches: Mapping[CacheId, CacheInfo],
        equivalence_classes: EquivalenceClasses,
        *,
        without_pools: frozenset[ClusterName],
        groups: Groups | None = None,
    ) -> None:
        """Use `Fleet.of`."""
        self.infos = infos
        self.caches = caches
        self.without_pools = without_pools
        """Clusters that are in no equivalence class."""
        self._owned = owned
        self._equivalence_classes = equivalence_classes
        self._groups = groups

    @classmethod
    def of(
        cls, clusters: Iterable[Cluster] = (), replicas: Iterable[PlacedReplica] = (), caches: Iterable[CacheInfo] = ()
    ) -> "Fleet":
        """Order does not matter. A replica that comes twice counts once."""
        known = {cluster.name: cluster for cluster in clusters}
        by_cluster: dict[ClusterName, list[PlacedReplica]] = {}
        by_owner: dict[Key, list[PlacedReplica]] = {}
        for replica in _once(sorted(replicas, key=_replica_key)):
            by_cluster.setdefault(replica.cluster, []).append(replica)
            by_owner.setdefault(replica.deployment, []).append(replica)
        names = sorted(known.keys() | by_cluster.keys())
        infos = {name: make_cluster_info(known.get(name), by_cluster.get(name, ())) for name in names}
        owned = {key: tuple(found) for key, found in by_owner.items()}
        staged = {(cache.namespace, cache.name): cache for cache in caches}
        groups = build_groups(infos)
        bare = frozenset(name for name, info in infos.items() if _has_no_pools(info))
        return cls(infos, owned, staged, build_equivalence_classes(groups), without_pools=bare, groups=groups)

    def __len__(self) -> int:
        """How many clusters there are."""
        return sum(1 for info in self.infos.values() if info.cluster is not None)

    def __bool__(self) -> bool:
        """A fleet without clusters is a fleet all the same."""
        return True

    def cluster(self, name: str) -> Cluster | None:
        info = self.infos.get(ClusterName(name))
        return info.cluster if info is not None else None

    @property
    def clusters(self) -> Iterator[Cluster]:
        """By name."""
        return (info.cluster for _, info in sorted(self.infos.items()) if info.cluster is not None)

    @property
    def replicas(self) -> Iterator[PlacedReplica]:
        """By deployment, cluster and index."""
        return (replica for _, found in sorted(self._owned.items()) for replica in found)

    def owned_by(self, deployment: Key) -> tuple[PlacedReplica, ...]:
        """The replicas of a deployment, by cluster and index."""
        return self._owned.get(deployment, ())

    @property
    def equivalence_classes(self) -> EquivalenceClasses:
        return self._equivalence_classes

    @property
    def groups(self) -> Groups:
        """Clusters whose pools are alike. After an update, computed again when first read."""
        if self._groups is None:
            self._groups = build_groups(self.infos)
        return self._groups

    def with_cluster(self, cluster: Cluster) -> "Fleet":
        before = self.infos.get(cluster.name)
        return self._replaced({cluster.name: make_cluster_info(cluster, before.held.values() if before else ())})

    def without_cluster(self, name: ClusterName) -> "Fleet":
        before = self.infos.get(name)
        if before is None:
            return self
        return self._replaced({name: make_cluster_info(None, before.held.values())})

    def with_replicas(self, added: Iterable[PlacedReplica] = (), removed: Iterable[ReplicaKey] = ()) -> "Fleet":
        """The fleet after some replicas left and others came. One that is there already is replaced."""
        come: dict[ClusterName, list[PlacedReplica]] = {}
        gone: dict[ClusterName, list[ReplicaKey]] = {}
        owners: dict[Key, dict[ReplicaKey, PlacedReplica | None]] = {}
        for replica_key in removed:
            gone.setdefault(replica_key[1], []).append(replica_key)
            owners.setdefault(replica_key[0], {})[replica_key] = None
        for replica in added:
            come.setdefault(replica.cluster, []).append(replica)
            owners.setdefault(replica.deployment, {})[replica.id] = replica
        changed = {
            name: (self.infos.get(name) or make_cluster_info(None)).with_replicas(
                come.get(name, ()), gone.get(name, ())
            )
            for name in come.keys() | gone.keys()
        }
        return self._replaced(changed, self._own(owners))

    def with_cache(self, cache: CacheInfo) -> "Fleet":
        caches = {**self.caches, (cache.namespace, cache.name): cache}
        return self._with_caches(caches)

    def without_cache(self, cache: CacheId) -> "Fleet":
        caches = {key: found for key, found in self.caches.items() if key != cache}
        return self._with_caches(caches)

    def _with_caches(self, caches: Mapping[CacheId, CacheInfo]) -> "Fleet":
        return Fleet(self.infos, self._owned, caches, self._equivalence_classes, without_pools=self.without_pools)

    def _own(
        self, changes: Mapping[Key, Mapping[ReplicaKey, PlacedReplica | None]]
    ) -> dict[Key, tuple[PlacedReplica, ...]]:
        owned = dict(self._owned)
        for key, change in changes.items():
            merged: dict[ReplicaKey, PlacedReplica | None] = {replica.id: replica for replica in owned.get(key, ())}
            merged.update(change)
            left = [replica for replica in merged.values() if replica is not None]
            if left:
                owned[key] = tuple(sorted(left, key=_replica_key))
            else:
                owned.pop(key, None)
        return owned

    def _replaced(
        self, changed: Mapping[ClusterName, ClusterInfo], owned: Mapping[Key, tuple[PlacedReplica, ...]] | None = None
    ) -> "Fleet":
        equivalence_classes = update_equivalence_classes(
            self._equivalence_classes, ((name, self.infos.get(name), info) for name, info in changed.items())
        )
        bare = self.without_pools - changed.keys() | {name for name, info in changed.items() if _has_no_pools(info)}
        infos = {**self.infos, **changed}
        for name, info in changed.items():
            if info.cluster is None and not info.held:
                del infos[name]
        owners = self._owned if owned is None else owned
        return Fleet(infos, owners, self.caches, equivalence_classes, without_pools=bare)


def _has_no_pools(info: ClusterInfo) -> bool:
    return info.cluster is not None and not info.pools


def _replica_key(replica: PlacedReplica) -> ReplicaKey:
    return replica.id


def _once(ordered: Iterable[PlacedReplica]) -> Iterator[PlacedReplica]:
    """Each replica once: of several with one identity the one that can be read, then the one that serves."""
    last: PlacedReplica | None = None
    for replica in ordered:
        if last is not None and last.id != replica.id:
            yield last
            last = replica
        else:
            last = replica if last is None else max(last, replica, key=_trust)
    if last is not None:
        yield last


def _trust(replica: PlacedReplica) -> tuple[bool, bool, bytes]:
    return not replica.fault, replica.serving, msgspec.json.encode(replica)
