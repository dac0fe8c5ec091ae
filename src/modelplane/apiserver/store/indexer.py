"""The objects of one store in memory: lookups by name, ordered lists by kind, and label queries that use an index.

Lists are ordered by namespace and name. The first query for a label key builds an index over that key for its kind. The
number of indexed keys is limited; further keys are matched object by object.

A decoded object takes 4 times the memory of its JSON, and its JSON 15 times the memory of the packed object. An indexer
with LruBodies keeps objects decoded that were written or read lately, and packs the others.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from modelplane.api.objects import Manifest
from modelplane.apiserver.store.packed import BodyPacker
from modelplane.apiserver.store.rules import decode, encode
from modelplane.reconcile.store import ObjectRef

_MAX_INDEXED_KEYS = 8

_Place = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Bucket:
    """Objects of one kind and namespace, decoded or packed."""

    packer: BodyPacker
    objects: dict[str, Manifest | bytes] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def read(self, name: str, having: bytes = b"") -> Manifest | None:
        """The object; a packed one stays packed. None for a packed object whose JSON lacks the text."""
        found = self.objects.get(name)
        if not isinstance(found, bytes):
            return found
        text = self.packer.unpack(found)
        return decode(text) if having in text else None


class LruBodies:
    """Limits how many objects stay decoded, over all the indexers that share it: the oldest entry is evicted first.

    An entry has the identity of its object. When a later object has the same name and the same identity, it is packed
    early, which costs one decoding.
    """

    def __init__(self, decoded_max: int) -> None:
        self._most = decoded_max
        self.longest_list = decoded_max // 4
        """Longer lists do not keep what they decode: they would evict everything else."""
        self._decoded: deque[tuple[_Bucket, str, int]] = deque()
        self._packers: dict[tuple[str, str], BodyPacker] = {}

    def packer_of(self, group: str, kind: str) -> BodyPacker:
        """One for all indexers: their objects of a kind come from the same templates."""
        return self._packers.setdefault((group, kind), BodyPacker())

    def keep(self, bucket: _Bucket, name: str, manifest: Manifest) -> None:
        """Record that the object is decoded, and evict others beyond the limit."""
        self._decoded.append((bucket, name, id(manifest)))
        while len(self._decoded) > self._most:
            self._evict(*self._decoded.popleft())

    @staticmethod
    def _evict(bucket: _Bucket, name: str, identity: int) -> None:
        found = bucket.objects.get(name)
        if found is not None and not isinstance(found, bytes) and id(found) == identity:
            bucket.objects[name] = bucket.packer.pack(encode(found))


class _Kind:
    """All objects of one group and kind."""

    def __init__(self, bodies: LruBodies | None, packer: BodyPacker) -> None:
        self._bodies = bodies
        self._packer = packer
        self._buckets: dict[str, _Bucket] = {}
        self._namespaces: list[str] = []
        self._by_label: dict[str, dict[str, set[_Place]]] = {}

    def get(self, place: _Place) -> Manifest | None:
        bucket = self._buckets.get(place[0])
        if bucket is None:
            return None
        found = bucket.objects.get(place[1])
        return self._unpacked(bucket, place[1]) if isinstance(found, bytes) else found

    def put(self, place: _Place, manifest: Manifest) -> None:
        namespace, name = place
        bucket = self._bucket(namespace)
        before = bucket.read(name) if self._by_label else None
        if name not in bucket.objects:
            insort(bucket.names, name)
        bucket.objects[name] = manifest
        if self._bodies is not None:
            self._bodies.keep(bucket, name, manifest)
        if self._by_label:
            self._reindex(place, before, manifest)

    def load(self, place: _Place, text: bytes) -> None:
        """Add an object from its JSON, packed."""
        namespace, name = place
        bucket = self._bucket(namespace)
        insort(bucket.names, name)
        bucket.objects[name] = bucket.packer.pack(text) if self._bodies is not None else decode(text)

    def _bucket(self, namespace: str) -> _Bucket:
        bucket = self._buckets.get(namespace)
        if bucket is None:
            bucket = self._buckets[namespace] = _Bucket(self._packer)
            insort(self._namespaces, namespace)
        return bucket

    def remove(self, place: _Place) -> None:
        namespace, name = place
        bucket = self._buckets[namespace]
        if self._by_label:
            self._reindex(place, bucket.read(name), None)
        del bucket.objects[name]
        del bucket.names[bisect_left(bucket.names, name)]
        if not bucket.names:
            del self._buckets[namespace]
            del self._namespaces[bisect_left(self._namespaces, namespace)]

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def __len__(self) -> int:
        return sum(len(bucket.names) for bucket in self._buckets.values())

    def all(self, namespace: str | None) -> Iterator[Manifest]:
        for place in self._places(namespace):
            yield self._at(place)

    def _at(self, place: _Place) -> Manifest:
        bucket = self._buckets[place[0]]
        found = bucket.objects[place[1]]
        if not isinstance(found, bytes):
            return found
        is_long = self._bodies is None or len(bucket.names) > self._bodies.longest_list
        return _read(bucket, place[1]) if is_long else self._unpacked(bucket, place[1])

    def _unpacked(self, bucket: _Bucket, name: str) -> Manifest:
        manifest = _read(bucket, name)
        if self._bodies is not None:
            bucket.objects[name] = manifest
            self._bodies.keep(bucket, name, manifest)
        return manifest

    def scan(self, having: bytes) -> Iterator[Manifest]:
        """Iterates over all objects; those deleted meanwhile are left out, and packed objects stay packed."""
        for namespace, name in list(self._places(None)):
            bucket = self._buckets.get(namespace)
            found = bucket.read(name, having) if bucket is not None else None
            if found is not None:
                yield found

    def labelled(self, namespace: str | None, labels: Mapping[str, str]) -> Iterator[Manifest]:
        for place in self._candidates(namespace, labels):
            manifest = self._at(place)
            if labels.items() <= labels_of(manifest).items():
                yield manifest

    def _places(self, namespace: str | None) -> Iterator[_Place]:
        for each in self._namespaces if namespace is None else [namespace]:
            bucket = self._buckets.get(each)
            if bucket is not None:
                yield from ((each, name) for name in bucket.names)

    def _candidates(self, namespace: str | None, labels: Mapping[str, str]) -> Iterable[_Place]:
        found = [index.get(value, set()) for key, value in labels.items() if (index := self._index(key)) is not None]
        if not found:
            return self._places(namespace)
        return sorted(place for place in min(found, key=len) if namespace is None or place[0] == namespace)

    def _index(self, key: str) -> dict[str, set[_Place]] | None:
        index = self._by_label.get(key)
        if index is None and len(self._by_label) < _MAX_INDEXED_KEYS:
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


class ObjectIndexer:
    def __init__(self, bodies: LruBodies | None = None) -> None:
        self._bodies = bodies
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def get(self, ref: ObjectRef) -> Manifest | None:
        kind = self._kinds.get((ref.group, ref.kind))
        return kind.get((ref.namespace, ref.name)) if kind else None

    def put(self, ref: ObjectRef, manifest: Manifest) -> None:
        self._kind(ref).put((ref.namespace, ref.name), manifest)

    def load(self, ref: ObjectRef, text: bytes) -> None:
        """Add an object from its JSON."""
        self._kind(ref).load((ref.namespace, ref.name), text)

    def _kind(self, ref: ObjectRef) -> _Kind:
        kind = self._kinds.get((ref.group, ref.kind))
        if kind is None:
            packer = self._bodies.packer_of(ref.group, ref.kind) if self._bodies is not None else BodyPacker()
            kind = self._kinds[ref.group, ref.kind] = _Kind(self._bodies, packer)
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
        """Iterates over the objects of a kind without decoding all of them at once.

        Packed objects whose JSON lacks the text `having` are left out, without being decoded.
        """
        found = self._kinds.get((group, kind))
        return found.scan(having) if found is not None else iter(())

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The groups and kinds that have objects, in order."""
        return tuple(sorted(self._kinds))

    def __len__(self) -> int:
        return sum(len(kind) for kind in self._kinds.values())


def _read(bucket: _Bucket, name: str) -> Manifest:
    found = bucket.read(name)
    if found is None:
        raise KeyError(name)
    return found


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    metadata = manifest["metadata"]
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
