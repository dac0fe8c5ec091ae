"""Places that are alike, grouped: equal pools on clusters with equal profiles get one decision.

An equivalence class lists its places by cluster and pool. Decisions that read labels, or where caches are staged, split
a class by exactly what they read; the split is kept with the class, which never changes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.cluster_info import ClusterInfo, ClusterProfile, PoolShape
from modelplane.placement.pool_usage import PoolUsage
from modelplane.placement.values import Cluster

Place = tuple[ClusterName, int]
"""A cluster and the position of one of its pools."""
EquivalenceKey = tuple[ClusterProfile, PoolShape, PoolUsage]
Facts = tuple[str | bool | None, ...]


class Reading(msgspec.Struct, frozen=True, cache_hash=True):
    """What a decision reads of a cluster beside its profile: values of labels, and whether caches are staged there."""

    labels: tuple[str, ...] = ()
    staged: tuple[frozenset[ClusterName], ...] = ()

    def facts(self, cluster: Cluster) -> Facts:
        # Lists, not generators: this runs for every cluster of a fleet.
        labels = cluster.labels
        return (*[labels.get(label) for label in self.labels], *[cluster.name in where for where in self.staged])


Split = dict[Facts, tuple[Place, ...]]
Visit = tuple[Place, Cluster]
"""A place that joins or leaves an equivalence class, with its cluster as it is then."""

_MAX_SPLITS = 16


class EquivalenceClass:
    """Places that get the same answer from any decision that reads no labels."""

    __slots__ = ("_splits", "key", "places")

    def __init__(
        self, key: EquivalenceKey, places: tuple[Place, ...], splits: Mapping[Reading, Split] | None = None
    ) -> None:
        self.key = key
        self.places = places
        self._splits: dict[Reading, Split] = dict(splits or {})

    def split(
        self, reading: Reading, infos: Mapping[ClusterName, ClusterInfo]
    ) -> Iterable[tuple[Facts, tuple[Place, ...]]]:
        """The places by what the decision reads of their clusters."""
        if not reading.labels and not reading.staged:
            return (((), self.places),)
        found = self._splits.get(reading)
        if found is None:
            parts: dict[Facts, list[Place]] = {}
            for place in self.places:
                parts.setdefault(reading.facts(infos[place[0]].existing), []).append(place)
            found = {facts: tuple(places) for facts, places in parts.items()}
            if len(self._splits) >= _MAX_SPLITS:
                self._splits.clear()
            self._splits[reading] = found
        return found.items()

    def edited(self, gone: Iterable[Visit], come: Iterable[Visit]) -> "EquivalenceClass":
        """The class after some places left and others joined, with its splits."""
        splits = {reading: _edit_split(reading, split, gone, come) for reading, split in self._splits.items()}
        return EquivalenceClass(self.key, _edit(self.places, _places(gone), _places(come)), splits)


EquivalenceClasses = Mapping[EquivalenceKey, EquivalenceClass]


GroupKey = tuple[ClusterProfile, tuple[PoolShape, ...], tuple[PoolUsage, ...]]
Groups = Mapping[GroupKey, tuple[ClusterName, ...]]


def build_groups(infos: Mapping[ClusterName, ClusterInfo]) -> dict[GroupKey, tuple[ClusterName, ...]]:
    """Clusters whose pools are alike, position by position, by name."""
    grouped: dict[GroupKey, list[ClusterName]] = {}
    for name, info in infos.items():
        if info.cluster is not None:
            grouped.setdefault((info.profile, info.kinds, info.usages), []).append(name)
    return {key: tuple(sorted(names)) for key, names in grouped.items()}


def build_equivalence_classes(groups: Groups) -> dict[EquivalenceKey, EquivalenceClass]:
    """All classes of a fleet. Clusters of one group are in the same classes, so each group is visited once."""
    grouped: dict[EquivalenceKey, list[list[Place]]] = {}
    for (cluster_profile, kinds, usages), names in groups.items():
        for at, (kind, usage) in enumerate(zip(kinds, usages, strict=True)):
            grouped.setdefault((cluster_profile, kind, usage), []).append([(name, at) for name in names])
    return {
        key: EquivalenceClass(
            key, tuple(parts[0] if len(parts) == 1 else sorted(place for part in parts for place in part))
        )
        for key, parts in grouped.items()
    }


def update_equivalence_classes(
    equivalence_classes: EquivalenceClasses,
    changes: Iterable[tuple[ClusterName, ClusterInfo | None, ClusterInfo]],
) -> dict[EquivalenceKey, EquivalenceClass]:
    """The classes after some clusters changed. Those that lose or gain a place are made anew, the rest are shared."""
    gone: dict[EquivalenceKey, list[Visit]] = {}
    come: dict[EquivalenceKey, list[Visit]] = {}
    for name, before, after in changes:
        changed = before is None or before.cluster is not after.cluster
        old, new = _keys(before), _keys(after)
        _note(gone, name, before, [changed or new[at : at + 1] != [key] for at, key in enumerate(old)])
        _note(come, name, after, [changed or old[at : at + 1] != [key] for at, key in enumerate(new)])
    updated = dict(equivalence_classes)
    for key in gone.keys() | come.keys():
        equivalence_class = (updated.get(key) or EquivalenceClass(key, ())).edited(gone.get(key, ()), come.get(key, ()))
        if equivalence_class.places:
            updated[key] = equivalence_class
        else:
            updated.pop(key, None)
    return updated


def _note(
    found: dict[EquivalenceKey, list[Visit]], name: ClusterName, info: ClusterInfo | None, flags: list[bool]
) -> None:
    if info is None or info.cluster is None:
        return
    for at, flag in enumerate(flags):
        if flag:
            found.setdefault((info.profile, info.kinds[at], info.usages[at]), []).append(((name, at), info.cluster))


def _keys(info: ClusterInfo | None) -> list[EquivalenceKey]:
    return (
        []
        if info is None
        else [(info.profile, kind, usage) for kind, usage in zip(info.kinds, info.usages, strict=True)]
    )


def _places(visits: Iterable[Visit]) -> list[Place]:
    return [place for place, _ in visits]


def _edit(places: tuple[Place, ...], gone: Iterable[Place], come: Iterable[Place]) -> tuple[Place, ...]:
    edited = list(places)
    for place in gone:
        del edited[bisect_left(edited, place)]
    for place in come:
        insort(edited, place)
    return tuple(edited)


def _edit_split(reading: Reading, split: Split, gone: Iterable[Visit], come: Iterable[Visit]) -> Split:
    leaving: dict[Facts, list[Place]] = {}
    joining: dict[Facts, list[Place]] = {}
    for side, visits in ((leaving, gone), (joining, come)):
        for place, cluster in visits:
            side.setdefault(reading.facts(cluster), []).append(place)
    edited = dict(split)
    for facts in leaving.keys() | joining.keys():
        places = _edit(edited.get(facts, ()), leaving.get(facts, ()), joining.get(facts, ()))
        if places:
            edited[facts] = places
        else:
            edited.pop(facts, None)
    return edited
