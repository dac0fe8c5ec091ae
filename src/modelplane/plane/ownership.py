"""Which composite composed which object, written as annotations on the object, so that it survives a restart.

A composed object carries its owner, its composition key and its readiness signal. The index over those annotations is
kept up to date by subscriptions to the stores.
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


def composition_metadata_of(manifest: Manifest) -> CompositionMetadata | None:
    """The composition annotations of an object; None where they are absent or unreadable."""
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


class ComposedRef(msgspec.Struct, frozen=True, gc=False):
    """A composed object, on the plane or on a cluster."""

    cluster: ClusterName | None
    ref: ObjectRef


class Ownership:
    """The composed objects of every composite, by the composer's key."""

    def __init__(self, *, is_reachable: Callable[[ClusterName], bool]) -> None:
        self._is_reachable = is_reachable
        self._stores: dict[ClusterName | None, Store] = {}
        self._places: defaultdict[str, dict[str, ComposedRef]] = defaultdict(dict)
        self._owners: defaultdict[ClusterName, dict[str, ObjectRef]] = defaultdict(dict)
        self._written: defaultdict[str, dict[str, bytes]] = defaultdict(dict)

    def record_written(self, uid: str, key: str, wanted: Manifest, made: Manifest) -> None:
        """Record the digest of what was wanted and stored, so that the next pass need not write it again."""
        self._written[uid][key] = _digest(wanted, made)

    def is_written(self, uid: str, key: str, wanted: Manifest, found: Manifest) -> bool:
        """Whether `found` is what was last written there and `wanted` has not changed since."""
        return self._written.get(uid, {}).get(key) == _digest(wanted, found)

    def add_store(self, cluster: ClusterName | None, store: Store) -> None:
        """Where observed objects are read from. The caller passes objects and changes to `on_change`."""
        self._stores[cluster] = store

    def drop_store(self, cluster: ClusterName) -> tuple[ObjectRef, ...]:
        """Forget a deleted cluster. Returns the composites that had objects there."""
        owners = self._owners.pop(cluster, {})
        for uid in owners:
            left = {key: place for key, place in self._places[uid].items() if place.cluster != cluster}
            self._places[uid] = left
            if not left:
                del self._places[uid]
                self._written.pop(uid, None)
        self._stores.pop(cluster, None)
        return tuple(owners.values())

    def on_change(self, cluster: ClusterName | None, change: StoreChange) -> Owner | None:
        """Update the index. Returns the composite that composed the object."""
        if change.type is ChangeType.DELETED:
            return self._drop(change.ref, change.manifest)
        return self._note(cluster, change.ref, change.manifest)

    def observe(self, uid: str) -> dict[str, Observed]:
        found: dict[str, Observed] = {}
        for key, place in self._places.get(uid, {}).items():
            seen = self._stores[place.cluster].get(place.ref)
            if seen is not None:
                found[key] = _observed(
                    place, seen, is_reachable=place.cluster is None or self._is_reachable(place.cluster)
                )
        return found

    def places(self, uid: str) -> Mapping[str, ComposedRef]:
        return dict(self._places.get(uid, {}))

    def removable(self, uid: str, keys: Collection[str]) -> list[ComposedRef]:
        """The objects that may be deleted now: one that outlives another waits until that one is gone."""
        places = self._places.get(uid, {})
        going = places.keys() & set(keys)
        return [places[key] for key in keys if key in going and not self._awaited(places[key]) & going]

    def _awaited(self, place: ComposedRef) -> set[str]:
        marks = composition_metadata_of(self._stores[place.cluster].get(place.ref) or {})
        return set(marks.outlives) if marks else set()

    def owners_on(self, cluster: ClusterName) -> tuple[ObjectRef, ...]:
        """The composites that have objects on a cluster."""
        return tuple(self._owners.get(cluster, {}).values())

    def _note(self, cluster: ClusterName | None, ref: ObjectRef, manifest: Manifest) -> Owner | None:
        marks = composition_metadata_of(manifest)
        if marks is None or self._is_copy(marks, ComposedRef(cluster, ref)):
            return None
        self._places[marks.owner.uid][marks.key] = ComposedRef(cluster, ref)
        if cluster is not None:
            self._owners[cluster][marks.owner.uid] = marks.owner.ref
        return marks.owner

    def _is_copy(self, marks: CompositionMetadata, place: ComposedRef) -> bool:
        """Whether somebody copied a composed object with its annotations: the original counts."""
        known = self._places.get(marks.owner.uid, {}).get(marks.key)
        return known is not None and known != place and self._stores[known.cluster].get(known.ref) is not None

    def _drop(self, ref: ObjectRef, manifest: Manifest) -> Owner | None:
        marks = composition_metadata_of(manifest)
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
        """Remove the composite from the index of a cluster when its last object there is gone."""
        if cluster is None or any(place.cluster == cluster for place in self._places[owner.uid].values()):
            return
        self._owners[cluster].pop(owner.uid, None)
        if not self._owners[cluster]:
            del self._owners[cluster]


class UsageIndex:
    """Which objects use which, from the annotation on the users: it survives a restart and ends with the user."""

    def __init__(self) -> None:
        self._users: dict[str, set[ObjectRef]] = {}

    def on_change(self, change: StoreChange) -> None:
        before = _uses(change.before) if change.before is not None else frozenset()
        after = _uses(change.manifest) if change.type is not ChangeType.DELETED else frozenset()
        for mark in before - after:
            self._users[mark].discard(change.ref)
            if not self._users[mark]:
                del self._users[mark]
        for mark in after - before:
            self._users.setdefault(mark, set()).add(change.ref)

    def users_of(self, used: ObjectRef) -> list[ObjectRef]:
        return sorted(self._users.get(usage_key(used), ()))


def usage_key(ref: ObjectRef) -> str:
    return f"{ref.group}/{ref.kind}/{ref.namespace}/{ref.name}"


def _uses(manifest: Manifest) -> frozenset[str]:
    return frozenset(annotations_of(manifest).get(USES, "").split())


def with_composition_metadata(manifest: Manifest, marks: CompositionMetadata) -> dict[str, object]:
    """The object with the composition annotations."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, Mapping)  # noqa: S101  composers always give metadata
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations_of(manifest), **marks.annotations()}}}


def _digest(wanted: Manifest, stored: Manifest) -> bytes:
    """Of what is wanted, and of which object and which content of it is stored."""
    metadata = stored.get("metadata")
    own = (metadata.get("uid"), metadata.get("generation")) if isinstance(metadata, Mapping) else ()
    return blake2b(msgspec.json.encode((wanted, own)), digest_size=_DIGEST_BYTES).digest()


def _observed(place: ComposedRef, manifest: Manifest, *, is_reachable: bool) -> Observed:
    """The object as last read. An object on an unreachable cluster is not ready, whatever its status says."""
    marks = composition_metadata_of(manifest)
    when = marks.ready_when if marks else ReadyWhen.CREATED
    target = Local(manifest, when) if place.cluster is None else Remote(place.cluster, manifest, when)
    return Observed(target, is_reachable and is_ready(manifest, when), marks.outlives if marks else ())
