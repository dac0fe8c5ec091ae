"""The objects of one store in memory: lookups by name, ordered lists by kind, and label queries that do not scan.

Lists come in the order of namespace and name, kept sorted on insertion. The first query for a label key makes an index
over that key for its kind, kept up to date from there; the number of such keys is bounded, and queries beyond it
filter what the indexed labels left.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from modelplane.reconcile.store import Manifest, ObjectRef

_INDEXED_KEYS_MOST = 8

_Place = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Shelf:
    objects: dict[str, Manifest] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


class _Kind:
    """All objects of one group and kind."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._namespaces: list[str] = []
        self._by_label: dict[str, dict[str, set[_Place]]] = {}

    def get(self, place: _Place) -> Manifest | None:
        shelf = self._shelves.get(place[0])
        return shelf.objects.get(place[1]) if shelf else None

    def put(self, place: _Place, manifest: Manifest) -> None:
        namespace, name = place
        shelf = self._shelves.get(namespace)
        if shelf is None:
            shelf = self._shelves[namespace] = _Shelf()
            insort(self._namespaces, namespace)
        before = shelf.objects.get(name)
        if before is None:
            insort(shelf.names, name)
        shelf.objects[name] = manifest
        self._reindex(place, before, manifest)

    def remove(self, place: _Place) -> None:
        namespace, name = place
        shelf = self._shelves[namespace]
        self._reindex(place, shelf.objects.pop(name), None)
        del shelf.names[bisect_left(shelf.names, name)]
        if not shelf.names:
            del self._shelves[namespace]
            del self._namespaces[bisect_left(self._namespaces, namespace)]

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def __len__(self) -> int:
        return sum(len(shelf.names) for shelf in self._shelves.values())

    def all(self, namespace: str | None) -> Iterator[Manifest]:
        for place in self._places(namespace):
            yield self._shelves[place[0]].objects[place[1]]

    def labelled(self, namespace: str | None, labels: Mapping[str, str]) -> Iterator[Manifest]:
        for place in self._candidates(namespace, labels):
            manifest = self._shelves[place[0]].objects[place[1]]
            if labels.items() <= labels_of(manifest).items():
                yield manifest

    def _places(self, namespace: str | None) -> Iterator[_Place]:
        for each in self._namespaces if namespace is None else [namespace]:
            shelf = self._shelves.get(each)
            if shelf is not None:
                yield from ((each, name) for name in shelf.names)

    def _candidates(self, namespace: str | None, labels: Mapping[str, str]) -> Iterable[_Place]:
        found = [index.get(value, set()) for key, value in labels.items() if (index := self._index(key)) is not None]
        if not found:
            return self._places(namespace)
        return sorted(place for place in min(found, key=len) if namespace is None or place[0] == namespace)

    def _index(self, key: str) -> dict[str, set[_Place]] | None:
        index = self._by_label.get(key)
        if index is None and len(self._by_label) < _INDEXED_KEYS_MOST:
            index = self._by_label[key] = {}
            for place in self._places(None):
                manifest = self._shelves[place[0]].objects[place[1]]
                if key in labels_of(manifest):
                    index.setdefault(labels_of(manifest)[key], set()).add(place)
        return index

    def _reindex(self, place: _Place, before: Manifest | None, after: Manifest | None) -> None:
        old = labels_of(before) if before else {}
        new = labels_of(after) if after else {}
        for key, index in self._by_label.items():
            if old.get(key) == new.get(key):
                continue
            if key in old:
                index[old[key]].discard(place)
                if not index[old[key]]:
                    del index[old[key]]
            if key in new:
                index.setdefault(new[key], set()).add(place)


class Mirror:
    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def get(self, ref: ObjectRef) -> Manifest | None:
        kind = self._kinds.get((ref.group, ref.kind))
        return kind.get((ref.namespace, ref.name)) if kind else None

    def put(self, ref: ObjectRef, manifest: Manifest) -> None:
        kind = self._kinds.get((ref.group, ref.kind))
        if kind is None:
            kind = self._kinds[ref.group, ref.kind] = _Kind()
        kind.put((ref.namespace, ref.name), manifest)

    def remove(self, ref: ObjectRef) -> None:
        kind = self._kinds[ref.group, ref.kind]
        kind.remove((ref.namespace, ref.name))
        if not kind:
            del self._kinds[ref.group, ref.kind]

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        found = self._kinds.get((group, kind))
        if found is None:
            return ()
        return tuple(found.labelled(namespace, labels) if labels else found.all(namespace))

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects, in order."""
        return tuple(sorted(self._kinds))

    def __len__(self) -> int:
        return sum(len(kind) for kind in self._kinds.values())


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    metadata = manifest["metadata"]
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
