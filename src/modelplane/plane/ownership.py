"""Which object was composed by which: written on the object itself, so that it survives a restart.

A composed object carries its owner, the key that the composer gave it, and the signal of its readiness. The index over
those marks is kept by listening to the stores.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, annotations_of
from modelplane.compose.contract import Local, Observed, ReadyWhen, Remote
from modelplane.compose.readiness import is_ready
from modelplane.reconcile.store import ChangeType, ObjectRef, Store, StoreChange

OWNER = "modelplane.ai/owner"
KEY = "modelplane.ai/composition-key"
READY_WHEN = "modelplane.ai/ready-when"
OUTLIVES = "modelplane.ai/outlives"
USES = "modelplane.ai/uses"
MARKS = frozenset((OWNER, KEY, READY_WHEN, OUTLIVES))
"""Annotations that only the plane writes."""


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The composite that an object was composed by."""

    ref: ObjectRef
    uid: str


class CompositionMetadata(msgspec.Struct, frozen=True):
    """What is written on a composed object."""

    owner: Owner
    key: str
    ready_when: ReadyWhen = ReadyWhen.CREATED
    outlives: tuple[str, ...] = ()

    def annotations(self) -> dict[str, str]:
        ref = self.owner.ref
        marks = {
            OWNER: f"{ref.group}/{ref.kind}/{ref.namespace}/{ref.name}/{self.owner.uid}",
            KEY: self.key,
            READY_WHEN: self.ready_when.value,
        }
        return {**marks, OUTLIVES: " ".join(self.outlives)} if self.outlives else marks


def marks_of(manifest: Manifest) -> CompositionMetadata | None:
    """The marks of an object; None for one that the plane did not compose, whatever somebody wrote on it."""
    found = annotations_of(manifest)
    parts = found.get(OWNER, "").split("/")
    when = found.get(READY_WHEN, ReadyWhen.CREATED)
    if len(parts) != _MARK_PARTS or KEY not in found or when not in set(ReadyWhen):
        return None
    group, kind, namespace, name, uid = parts
    owner = Owner(ObjectRef(group, kind, namespace, name), uid)
    return CompositionMetadata(owner, found[KEY], ReadyWhen(when), tuple(found.get(OUTLIVES, "").split()))


_MARK_PARTS = 5
_DIGEST_BYTES = 16


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a composed object is: on the plane, or on a cluster."""

    cluster: ClusterName | None
    ref: ObjectRef


class Ownership:
    """The composed objects of every composite, by the composer's key."""

    def __init__(self, *, answers: Callable[[ClusterName], bool]) -> None:
        self._answers = answers
        self._stores: dict[ClusterName | None, Store] = {}
        self._places: defaultdict[str, dict[str, Place]] = defaultdict(dict)
        self._owners: defaultdict[ClusterName, dict[str, ObjectRef]] = defaultdict(dict)
        self._written: defaultdict[str, dict[str, bytes]] = defaultdict(dict)

    def wrote(self, uid: str, key: str, wanted: Manifest, made: Manifest) -> None:
        """Remember what was wanted for an owner and what that became, so that a pass need not write it again."""
        self._written[uid][key] = _digest(wanted, made)

    def is_written(self, uid: str, key: str, wanted: Manifest, found: Manifest) -> bool:
        """Whether what is found is what was last written there, and that is what is wanted again."""
        return self._written.get(uid, {}).get(key) == _digest(wanted, found)

    def add_store(self, cluster: ClusterName | None, store: Store) -> None:
        """Where observed objects are read from. What is in it already is told through `heard`, as everything later."""
        self._stores[cluster] = store

    def drop_store(self, cluster: ClusterName) -> tuple[ObjectRef, ...]:
        """The cluster is gone with everything on it. Returns the composites that had something there."""
        owners = self._owners.pop(cluster, {})
        for uid in owners:
            left = {key: place for key, place in self._places[uid].items() if place.cluster != cluster}
            self._places[uid] = left
            if not left:
                del self._places[uid]
                self._written.pop(uid, None)
        self._stores.pop(cluster, None)
        return tuple(owners.values())

    def heard(self, cluster: ClusterName | None, change: StoreChange) -> Owner | None:
        """Follow a change. Returns the owner that it concerns."""
        if change.type is ChangeType.DELETED:
            return self._drop(change.ref, change.manifest)
        return self._note(cluster, change.ref, change.manifest)

    def observe(self, uid: str) -> dict[str, Observed]:
        found: dict[str, Observed] = {}
        for key, place in self._places.get(uid, {}).items():
            seen = self._stores[place.cluster].get(place.ref)
            if seen is not None:
                found[key] = _observed(place, seen, answers=place.cluster is None or self._answers(place.cluster))
        return found

    def places(self, uid: str) -> Mapping[str, Place]:
        return dict(self._places.get(uid, {}))

    def removable(self, uid: str, keys: Collection[str]) -> list[Place]:
        """Those of the objects to be removed that no other of them must precede: routes go before what they lead to."""
        places = self._places.get(uid, {})
        going = places.keys() & set(keys)
        return [places[key] for key in keys if key in going and not self._awaited(places[key]) & going]

    def _awaited(self, place: Place) -> set[str]:
        marks = marks_of(self._stores[place.cluster].get(place.ref) or {})
        return set(marks.outlives) if marks else set()

    def owners_on(self, cluster: ClusterName) -> tuple[ObjectRef, ...]:
        """The composites that have something on a cluster."""
        return tuple(self._owners.get(cluster, {}).values())

    def _note(self, cluster: ClusterName | None, ref: ObjectRef, manifest: Manifest) -> Owner | None:
        marks = marks_of(manifest)
        if marks is None or self._is_copy(marks, Place(cluster, ref)):
            return None
        self._places[marks.owner.uid][marks.key] = Place(cluster, ref)
        if cluster is not None:
            self._owners[cluster][marks.owner.uid] = marks.owner.ref
        return marks.owner

    def _is_copy(self, marks: CompositionMetadata, place: Place) -> bool:
        """Somebody copied a composed object with its annotations: the original is the one that counts."""
        known = self._places.get(marks.owner.uid, {}).get(marks.key)
        return known is not None and known != place and self._stores[known.cluster].get(known.ref) is not None

    def _drop(self, ref: ObjectRef, manifest: Manifest) -> Owner | None:
        marks = marks_of(manifest)
        if marks is None:
            return None
        owner = marks.owner
        places = self._places.get(owner.uid, {})
        place = places.get(marks.key)
        if place is not None and place.ref == ref:
            del places[marks.key]
            self._written.get(owner.uid, {}).pop(marks.key, None)
            self._leave(owner, place.cluster)
        if not places:
            self._places.pop(owner.uid, None)
            self._written.pop(owner.uid, None)
        return owner

    def _leave(self, owner: Owner, cluster: ClusterName | None) -> None:
        """Forget who is on a cluster with the last thing that they have there."""
        if cluster is None or any(place.cluster == cluster for place in self._places[owner.uid].values()):
            return
        self._owners[cluster].pop(owner.uid, None)
        if not self._owners[cluster]:
            del self._owners[cluster]


class UsageIndex:
    """Who needs which object, as the users wrote on themselves: it holds across a restart, and ends with the user."""

    def __init__(self) -> None:
        self._users: dict[str, set[ObjectRef]] = {}

    def heard(self, change: StoreChange) -> None:
        before = _uses(change.before) if change.before is not None else frozenset()
        after = _uses(change.manifest) if change.type is not ChangeType.DELETED else frozenset()
        for mark in before - after:
            self._users[mark].discard(change.ref)
            if not self._users[mark]:
                del self._users[mark]
        for mark in after - before:
            self._users.setdefault(mark, set()).add(change.ref)

    def users_of(self, used: ObjectRef) -> list[ObjectRef]:
        return sorted(self._users.get(use_mark(used), ()))


def use_mark(ref: ObjectRef) -> str:
    return f"{ref.group}/{ref.kind}/{ref.namespace}/{ref.name}"


def _uses(manifest: Manifest) -> frozenset[str]:
    return frozenset(annotations_of(manifest).get(USES, "").split())


def marked(manifest: Manifest, marks: CompositionMetadata) -> dict[str, object]:
    """The object as it is written, with the marks of its owner."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, Mapping)  # noqa: S101  composers always give metadata
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations_of(manifest), **marks.annotations()}}}


def _digest(wanted: Manifest, stored: Manifest) -> bytes:
    """Of what is wanted, and of which object and which content of it is stored."""
    metadata = stored.get("metadata")
    own = (metadata.get("uid"), metadata.get("generation")) if isinstance(metadata, Mapping) else ()
    return blake2b(msgspec.json.encode((wanted, own)), digest_size=_DIGEST_BYTES).digest()


def _observed(place: Place, manifest: Manifest, *, answers: bool) -> Observed:
    """As it was last seen. Nothing on a cluster that does not answer counts as ready, whatever its status once said."""
    marks = marks_of(manifest)
    when = marks.ready_when if marks else ReadyWhen.CREATED
    target = Local(manifest, when) if place.cluster is None else Remote(place.cluster, manifest, when)
    return Observed(target, answers and is_ready(manifest, when))
