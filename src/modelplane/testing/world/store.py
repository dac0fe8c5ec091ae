"""The API server of a world: objects with versions, a log of changes that watches read, and garbage collection.

As in Kubernetes, a write of what is there changes nothing; a change of anything but metadata and status raises the
generation; an object with finalizers is deleted in two steps; and what a composite owns is deleted before it. Nobody
changes a stored manifest: each write stores another one.

The log is read by `views`. It is compacted: a watch that asks for a version before `floor` must list again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from modelplane.api.objects import Manifest, finalizers_of, is_deleting, metadata_of, text_at, with_metadata
from modelplane.api.timestamps import timestamp

FOREGROUND = "foregroundDeletion"
"""The finalizer of a composite that waits for what it owns."""
KEY = "crossplane.io/composition-resource-name"
OWNER = "crossplane.io/composite-uid"
"""Whose composed object it is: short for an owner reference."""


class ObjectId(NamedTuple):
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


_NOT_APPLIED = frozenset({"metadata", "status"})


class ConflictFault(Exception):  # noqa: N818  an answer of the API server
    """The write was refused: somebody else wrote first."""


class ReplyLost(Exception):  # noqa: N818  an answer of the API server
    """The write was done and its answer was lost."""


@dataclass(frozen=True, slots=True)
class WorldChange:
    version: int
    id: ObjectId
    manifest: Manifest | None
    """None: it is deleted."""
    before: Manifest | None
    by: str
    """Who wrote it."""


def id_of(item: Manifest) -> ObjectId:
    metadata = metadata_of(item)
    return ObjectId(str(item.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def owner_of(item: Manifest) -> str:
    return text_at(item, "metadata", "annotations", OWNER)


def differs(known: Manifest, item: Manifest, marks: Mapping[str, str]) -> bool:
    """Whether applying the item with these annotations would change what is known."""
    stated, was = metadata_of(item), metadata_of(known)
    if was.get("labels", {}) != (stated.get("labels") or {}):
        return True
    if was.get("annotations", {}) != {**_texts(stated.get("annotations")), **marks}:
        return True
    return any(known.get(name) != value for name, value in item.items() if name not in _NOT_APPLIED)


class ApiStore:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._versions, self._uids = count(1), count(1)
        self.version = 0
        self.floor = 0
        self.objects: dict[ObjectId, Manifest] = {}
        self.by_kind: dict[str, dict[ObjectId, Manifest]] = {}
        self.uids: dict[str, ObjectId] = {}
        self.owned: dict[str, dict[ObjectId, None]] = {}
        """The composed objects of a composite, by its uid."""
        self.log: list[WorldChange] = []
        self.listeners: list[Callable[[WorldChange], None]] = []
        self.writes = 0

    def get(self, key: ObjectId) -> Manifest | None:
        return self.objects.get(key)

    def all_of(self, kind: str) -> Iterator[Manifest]:
        return iter(list(self.by_kind.get(kind, {}).values()))

    def apply(self, item: Manifest, by: str, marks: Mapping[str, str] | None = None) -> Manifest:
        """Server-side apply of everything but the status. `marks` are annotations of the host."""
        key, known = id_of(item), self.objects.get(id_of(item))
        stated = metadata_of(item)
        annotations = {**_texts(stated.get("annotations")), **(marks or {})}
        ours: dict[str, object] = {"labels": _texts(stated.get("labels")), "annotations": annotations}
        body = {name: value for name, value in item.items() if name not in _NOT_APPLIED}
        if known is None:
            return self._put(key, {**body, "metadata": {**self._born(key), **ours}}, None, by)
        was = metadata_of(known)
        before = {name: value for name, value in known.items() if name not in _NOT_APPLIED}
        if before == body and all(was.get(name, {}) == value for name, value in ours.items()):
            return known
        generation = was["generation"] if before == body else int(str(was["generation"])) + 1
        status = {"status": known["status"]} if "status" in known else {}
        return self._put(key, {**body, **status, "metadata": {**was, **ours, "generation": generation}}, known, by)

    def write_status(self, key: ObjectId, status: object, by: str) -> None:
        known = self.objects.get(key)
        if known is not None and known.get("status") != status:
            self._put(key, {**known, "status": status}, known, by)

    def edit(self, key: ObjectId, by: str, **changes: object) -> None:
        """Changes of the metadata."""
        known = self.objects.get(key)
        if known is not None:
            self._put(key, with_metadata(known, **changes), known, by)

    def delete(self, key: ObjectId, by: str) -> None:
        known = self.objects.get(key)
        if known is None or is_deleting(known):
            return
        if finalizers_of(known):
            self.edit(key, by, deletionTimestamp=timestamp(self._now()))
            self.collect(key, by)
        else:
            self._drop(key, known, by)

    def release(self, key: ObjectId, by: str) -> None:
        """Remove the finalizers of an object; it is gone where it is being deleted."""
        known = self.objects.get(key)
        if known is not None and is_deleting(known):
            self._drop(key, known, by)

    def collect(self, key: ObjectId, by: str = "gc") -> None:
        """Delete what a composite owns that is being deleted, and then the composite."""
        known = self.objects.get(key)
        if known is None or FOREGROUND not in finalizers_of(known) or not is_deleting(known):
            return
        for each in list(self.owned.get(str(metadata_of(known)["uid"]), ())):
            self.delete(each, by)
        # The last of what it owned may have taken it along.
        if key in self.objects and not self.owned.get(str(metadata_of(known)["uid"])):
            self._drop(key, known, by)

    def purge(self, key: ObjectId, by: str) -> None:
        """Gone at once with all that it owns, whatever its finalizers say."""
        known = self.objects.get(key)
        if known is None:
            return
        for each in list(self.owned.get(str(metadata_of(known)["uid"]), ())):
            self.purge(each, by)
        if key in self.objects:
            self._drop(key, self.objects[key], by)

    def collect_orphans(self) -> None:
        """Delete what is owned by composites that are gone: written by a pass that began before."""
        for uid in [uid for uid, items in self.owned.items() if items and uid not in self.uids]:
            for each in list(self.owned[uid]):
                self.delete(each, "gc")

    def compact(self) -> None:
        self.floor = self.version

    def _born(self, key: ObjectId) -> dict[str, object]:
        born: dict[str, object] = {"name": key.name, "uid": f"uid-{next(self._uids)}", "generation": 1}
        born["creationTimestamp"] = timestamp(self._now())
        if key.namespace:
            born["namespace"] = key.namespace
        if key.kind.startswith(("Model", "Inference")):
            born["finalizers"] = [FOREGROUND]
        elif key.kind == "Object":
            born["finalizers"] = ["provider"]
        return born

    def _put(self, key: ObjectId, item: Manifest, before: Manifest | None, by: str) -> Manifest:
        version = self._next()
        stored = with_metadata(item, resourceVersion=str(version))
        self.objects[key] = stored
        self.by_kind.setdefault(key.kind, {})[key] = stored
        if before is None:
            self.uids[str(metadata_of(stored)["uid"])] = key
            if owner := owner_of(stored):
                self.owned.setdefault(owner, {})[key] = None
        self._publish(WorldChange(version, key, stored, before, by))
        return stored

    def _drop(self, key: ObjectId, before: Manifest, by: str) -> None:
        del self.objects[key]
        del self.by_kind[key.kind][key]
        del self.uids[str(metadata_of(before)["uid"])]
        owner = owner_of(before)
        if owner:
            self.owned.get(owner, {}).pop(key, None)
        self._publish(WorldChange(self._next(), key, None, before, by))
        if owner in self.uids:
            self.collect(self.uids[owner])

    def _next(self) -> int:
        self.version = next(self._versions)
        self.writes += 1
        return self.version

    def _publish(self, change: WorldChange) -> None:
        self.log.append(change)
        for listener in self.listeners:
            listener(change)


def _texts(found: object) -> dict[str, str]:
    return dict(found) if isinstance(found, Mapping) else {}
