"""The objects of one store in memory: lookups by name, ordered lists by kind, and label queries that do not scan.

Lists come in the order of namespace and name, kept sorted on insertion. The first query for a label key makes an index
over that key for its kind, kept up to date from there; the number of such keys is bounded, and queries beyond it
filter what the indexed labels left.

Decoded, an object takes four times the memory of its JSON, and that fifteen times what is left of it in a Press. A
mirror with a Cellar keeps decoded what was written or asked for lately, and the rest packed until somebody asks.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from modelplane.api.objects import Manifest
from modelplane.apiserver.store.packed import Press
from modelplane.apiserver.store.rules import decode, encode
from modelplane.reconcile.store import ObjectRef

_INDEXED_KEYS_MOST = 8

_Place = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Shelf:
    """Objects of one kind and namespace: decoded, or packed by the press."""

    press: Press
    objects: dict[str, Manifest | bytes] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def read(self, name: str, having: bytes = b"") -> Manifest | None:
        """The object, wherever it is; nothing is moved for it. One that is away is left there if it lacks the text."""
        found = self.objects.get(name)
        if not isinstance(found, bytes):
            return found
        text = self.press.unpack(found)
        return decode(text) if having in text else None


class Cellar:
    """Bounds how many objects stay decoded, over all the mirrors that share it: first in, first out.

    Entries name the object that was there by its identity. Where another took its place, and its identity, that one
    is put away early, which costs a decoding and nothing else.
    """

    def __init__(self, warm: int) -> None:
        self._most = warm
        self.longest_list = warm // 4
        """Lists of more leave what is away where it is: they would drive out all that is in use."""
        self._warm: deque[tuple[_Shelf, str, int]] = deque()
        self._presses: dict[tuple[str, str], Press] = {}

    def press_of(self, group: str, kind: str) -> Press:
        """One for all mirrors: their objects of a kind are made from the same templates."""
        return self._presses.setdefault((group, kind), Press())

    def keep(self, shelf: _Shelf, name: str, manifest: Manifest) -> None:
        """The object is in use: others may have to go."""
        self._warm.append((shelf, name, id(manifest)))
        while len(self._warm) > self._most:
            self._put_away(*self._warm.popleft())

    @staticmethod
    def _put_away(shelf: _Shelf, name: str, identity: int) -> None:
        found = shelf.objects.get(name)
        if found is not None and not isinstance(found, bytes) and id(found) == identity:
            shelf.objects[name] = shelf.press.pack(encode(found))


class _Kind:
    """All objects of one group and kind."""

    def __init__(self, cellar: Cellar | None, press: Press) -> None:
        self._cellar = cellar
        self._press = press
        self._shelves: dict[str, _Shelf] = {}
        self._namespaces: list[str] = []
        self._by_label: dict[str, dict[str, set[_Place]]] = {}

    def get(self, place: _Place) -> Manifest | None:
        shelf = self._shelves.get(place[0])
        if shelf is None:
            return None
        found = shelf.objects.get(place[1])
        return self._warmed(shelf, place[1]) if isinstance(found, bytes) else found

    def put(self, place: _Place, manifest: Manifest) -> None:
        namespace, name = place
        shelf = self._shelf(namespace)
        before = shelf.read(name) if self._by_label else None
        if name not in shelf.objects:
            insort(shelf.names, name)
        shelf.objects[name] = manifest
        if self._cellar is not None:
            self._cellar.keep(shelf, name, manifest)
        if self._by_label:
            self._reindex(place, before, manifest)

    def load(self, place: _Place, text: bytes) -> None:
        """An object that is new here, as its JSON, put away at once."""
        namespace, name = place
        shelf = self._shelf(namespace)
        insort(shelf.names, name)
        shelf.objects[name] = shelf.press.pack(text) if self._cellar is not None else decode(text)

    def _shelf(self, namespace: str) -> _Shelf:
        shelf = self._shelves.get(namespace)
        if shelf is None:
            shelf = self._shelves[namespace] = _Shelf(self._press)
            insort(self._namespaces, namespace)
        return shelf

    def remove(self, place: _Place) -> None:
        namespace, name = place
        shelf = self._shelves[namespace]
        if self._by_label:
            self._reindex(place, shelf.read(name), None)
        del shelf.objects[name]
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
            yield self._at(place)

    def _at(self, place: _Place) -> Manifest:
        shelf = self._shelves[place[0]]
        found = shelf.objects[place[1]]
        if not isinstance(found, bytes):
            return found
        is_long = self._cellar is None or len(shelf.names) > self._cellar.longest_list
        return _read(shelf, place[1]) if is_long else self._warmed(shelf, place[1])

    def _warmed(self, shelf: _Shelf, name: str) -> Manifest:
        manifest = _read(shelf, name)
        if self._cellar is not None:
            shelf.objects[name] = manifest
            self._cellar.keep(shelf, name, manifest)
        return manifest

    def scan(self, having: bytes) -> Iterator[Manifest]:
        """All that are there, one after the other; those that went meanwhile are left out, and nothing is moved."""
        for namespace, name in list(self._places(None)):
            shelf = self._shelves.get(namespace)
            found = shelf.read(name, having) if shelf is not None else None
            if found is not None:
                yield found

    def labelled(self, namespace: str | None, labels: Mapping[str, str]) -> Iterator[Manifest]:
        for place in self._candidates(namespace, labels):
            manifest = self._at(place)
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
                manifest = self._at(place)
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
    def __init__(self, cellar: Cellar | None = None) -> None:
        self._cellar = cellar
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def get(self, ref: ObjectRef) -> Manifest | None:
        kind = self._kinds.get((ref.group, ref.kind))
        return kind.get((ref.namespace, ref.name)) if kind else None

    def put(self, ref: ObjectRef, manifest: Manifest) -> None:
        self._kind(ref).put((ref.namespace, ref.name), manifest)

    def load(self, ref: ObjectRef, text: bytes) -> None:
        """An object that is not there yet, as its JSON."""
        self._kind(ref).load((ref.namespace, ref.name), text)

    def _kind(self, ref: ObjectRef) -> _Kind:
        kind = self._kinds.get((ref.group, ref.kind))
        if kind is None:
            press = self._cellar.press_of(ref.group, ref.kind) if self._cellar is not None else Press()
            kind = self._kinds[ref.group, ref.kind] = _Kind(self._cellar, press)
        return kind

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

    def scan(self, group: str, kind: str, having: bytes = b"") -> Iterator[Manifest]:
        """As a list of all of them, one after the other: a long list takes more memory than what it lists.

        Of objects that are away, those are left out whose JSON does not have that text: most need not be decoded.
        """
        found = self._kinds.get((group, kind))
        return found.scan(having) if found is not None else iter(())

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects, in order."""
        return tuple(sorted(self._kinds))

    def __len__(self) -> int:
        return sum(len(kind) for kind in self._kinds.values())


def _read(shelf: _Shelf, name: str) -> Manifest:
    found = shelf.read(name)
    if found is None:
        raise KeyError(name)
    return found


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    metadata = manifest["metadata"]
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
