"""Places that are alike, grouped: pools of one kind and use on clusters of one make decide once.

A cell lists its places by cluster and pool. Decisions that read labels, or where caches are staged, split a cell by
exactly what they read; the split is kept with the cell, which never changes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.placement.cluster_info import ClusterInfo, ClusterProfile, PoolShape
from modelplane.placement.room import Use
from modelplane.placement.values import Cluster

Place = tuple[ClusterName, int]
"""A cluster and the position of one of its pools."""
CellKey = tuple[ClusterProfile, PoolShape, Use]
Facts = tuple[str | bool | None, ...]


class Reading(msgspec.Struct, frozen=True, cache_hash=True):
    """What a decision reads of a cluster beside its traits: values of labels, and whether caches are staged there."""

    labels: tuple[str, ...] = ()
    staged: tuple[frozenset[ClusterName], ...] = ()

    def facts(self, cluster: Cluster) -> Facts:
        values = tuple(cluster.labels.get(label) for label in self.labels)
        return values + tuple(cluster.name in where for where in self.staged)


Split = dict[Facts, tuple[Place, ...]]
Visit = tuple[Place, Cluster]
"""A place that joins or leaves a cell, with its cluster as it is then."""

_MAX_SPLITS = 16


class EquivalenceClass:
    """Places that get the same answer from any decision that reads no labels."""

    __slots__ = ("_splits", "key", "places")

    def __init__(self, key: CellKey, places: tuple[Place, ...], splits: Mapping[Reading, Split] | None = None) -> None:
        self.key = key
        self.places = places
        self._splits: dict[Reading, Split] = dict(splits or {})

    def split(
        self, reading: Reading, sites: Mapping[ClusterName, ClusterInfo]
    ) -> Iterable[tuple[Facts, tuple[Place, ...]]]:
        """The places by what the decision reads of their clusters."""
        if not reading.labels and not reading.staged:
            return (((), self.places),)
        found = self._splits.get(reading)
        if found is None:
            parts: dict[Facts, list[Place]] = {}
            for place in self.places:
                cluster = sites[place[0]].cluster
                if cluster is not None:
                    parts.setdefault(reading.facts(cluster), []).append(place)
            found = {facts: tuple(places) for facts, places in parts.items()}
            if len(self._splits) >= _MAX_SPLITS:
                self._splits.clear()
            self._splits[reading] = found
        return found.items()

    def edited(self, gone: Iterable[Visit], come: Iterable[Visit]) -> "EquivalenceClass":
        """The cell after some places left and others came, with its splits."""
        splits = {reading: _edit_split(reading, split, gone, come) for reading, split in self._splits.items()}
        return EquivalenceClass(self.key, _edit(self.places, _places(gone), _places(come)), splits)


Cells = Mapping[CellKey, EquivalenceClass]


GroupKey = tuple[ClusterProfile, tuple[PoolShape, ...], tuple[Use, ...]]
Groups = Mapping[GroupKey, tuple[ClusterName, ...]]


def build_groups(sites: Mapping[ClusterName, ClusterInfo]) -> dict[GroupKey, tuple[ClusterName, ...]]:
    """Clusters whose pools are alike, position by position, by name."""
    grouped: dict[GroupKey, list[ClusterName]] = {}
    for name, site in sites.items():
        if site.cluster is not None:
            grouped.setdefault((site.traits, site.kinds, site.uses), []).append(name)
    return {key: tuple(sorted(names)) for key, names in grouped.items()}


def build_cells(groups: Groups) -> dict[CellKey, EquivalenceClass]:
    """All cells of a fleet. Clusters of one group are in the same cells, so each group is looked at once."""
    grouped: dict[CellKey, list[list[Place]]] = {}
    for (traits, kinds, uses), names in groups.items():
        for at, (kind, use) in enumerate(zip(kinds, uses, strict=True)):
            grouped.setdefault((traits, kind, use), []).append([(name, at) for name in names])
    return {
        key: EquivalenceClass(
            key, tuple(parts[0] if len(parts) == 1 else sorted(place for part in parts for place in part))
        )
        for key, parts in grouped.items()
    }


def update_cells(
    cells: Cells, changes: Iterable[tuple[ClusterName, ClusterInfo | None, ClusterInfo | None]]
) -> dict[CellKey, EquivalenceClass]:
    """The cells after some sites became others. Cells that lose or gain a place are made anew, the rest are shared."""
    gone: dict[CellKey, list[Visit]] = {}
    come: dict[CellKey, list[Visit]] = {}
    for name, before, after in changes:
        changed = before is None or after is None or before.cluster is not after.cluster
        old, new = _keys(before), _keys(after)
        _note(gone, name, before, [changed or new[at : at + 1] != [key] for at, key in enumerate(old)])
        _note(come, name, after, [changed or old[at : at + 1] != [key] for at, key in enumerate(new)])
    updated = dict(cells)
    for key in gone.keys() | come.keys():
        cell = (updated.get(key) or EquivalenceClass(key, ())).edited(gone.get(key, ()), come.get(key, ()))
        if cell.places:
            updated[key] = cell
        else:
            updated.pop(key, None)
    return updated


def _note(found: dict[CellKey, list[Visit]], name: ClusterName, site: ClusterInfo | None, flags: list[bool]) -> None:
    if site is None or site.cluster is None:
        return
    for at, flag in enumerate(flags):
        if flag:
            found.setdefault((site.traits, site.kinds[at], site.uses[at]), []).append(((name, at), site.cluster))


def _keys(site: ClusterInfo | None) -> list[CellKey]:
    return [] if site is None else [(site.traits, kind, use) for kind, use in zip(site.kinds, site.uses, strict=True)]


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
