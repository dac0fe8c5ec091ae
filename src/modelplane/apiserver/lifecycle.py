"""The garbage collector and the namespace controller of the embedded API.

    background     dependents are deleted once none of their owners exists
    foreground     dependents are deleted first; a finalizer keeps the owner until the blocking ones are gone
    orphan         owner references are removed from the dependents; then the owner is deleted
    namespace      its contents are deleted; then the namespace itself

Owner references match by uid, so a recreated owner does not keep the dependents of the old one. An index over them is
kept up to date by a subscription to the store.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from modelplane.api.objects import (
    Manifest,
    as_list,
    as_mapping,
    finalizers_of,
    group_of,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    with_metadata,
)
from modelplane.apiserver.objects import NAME_LABEL, NAMESPACE_FINALIZER
from modelplane.apiserver.store.database import SqliteStore
from modelplane.apiserver.writes import ALWAYS_THERE
from modelplane.k8s.deletion import FOREGROUND, ORPHAN
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.loop import Loop
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange


def ensure_namespaces(store: SqliteStore) -> None:
    """Create the namespaces that always exist."""
    for name in ALWAYS_THERE:
        if store.get(ObjectRef("", "Namespace", "", name)) is None:
            metadata = {"name": name, "labels": {NAME_LABEL: name}}
            spec, status = {"finalizers": [NAMESPACE_FINALIZER]}, {"phase": "Active"}
            store.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": spec, "status": status}
            )


class Lifecycle:
    """Runs as a loop of its own; the host awaits `loop.run()`."""

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        self._store = store
        self._dependents: defaultdict[str, set[ObjectRef]] = defaultdict(set)
        self.loop: Loop[ObjectRef] = Loop(self._reconcile, clock=clock, workers=1)
        for group, kind in store.kinds():
            for manifest in store.list(group, kind):
                ref = ObjectRef(group, kind, namespace_of(manifest), name_of(manifest))
                self._on_change(StoreChange(ChangeType.ADDED, ref, manifest, None, 0))
        store.subscribe(self._on_change)

    def _on_change(self, change: StoreChange) -> None:
        if change.before is not None:
            for uid in _owner_uids(change.before):
                self._dependents[uid].discard(change.ref)
        if change.type is ChangeType.DELETED:
            self._on_deleted(change)
            return
        owners = _owner_uids(change.manifest)
        for uid in owners:
            self._dependents[uid].add(change.ref)
        if owners or is_deleting(change.manifest):
            self.loop.add(change.ref)

    def _on_deleted(self, change: StoreChange) -> None:
        for ref in self._dependents.pop(uid_of(change.manifest), ()):
            self.loop.add(ref)
        for owner in _owners(change.manifest):
            self.loop.add(_owner_ref(change.ref.namespace, owner))
            self.loop.add(_owner_ref("", owner))
        if change.ref.namespace:
            self.loop.add(ObjectRef("", "Namespace", "", change.ref.namespace))

    async def _reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None:
            return Done()
        with self._store.batch():
            if is_deleting(item):
                self._finish(ref, item)
            elif _owners(item):
                self._check_owners(ref, item)
        return Done()

    def _finish(self, ref: ObjectRef, item: Manifest) -> None:
        finalizers = finalizers_of(item)
        if (ref.group, ref.kind) == ("", "Namespace") and NAMESPACE_FINALIZER in finalizers:
            if not self._delete_contents(ref.name):
                return
            self._release(item, NAMESPACE_FINALIZER)
        elif ORPHAN in finalizers:
            self._orphan_dependents(uid_of(item))
            self._release(item, ORPHAN)
        elif FOREGROUND in finalizers and not self._remove_dependents(uid_of(item)):
            self._release(item, FOREGROUND)

    def _release(self, item: Manifest, finalizer: str) -> None:
        left = [name for name in finalizers_of(item) if name != finalizer]
        self._store.replace(with_metadata(item, finalizers=left or None))

    def _delete_contents(self, namespace: str) -> bool:
        """Delete everything in a namespace. Returns whether it is empty."""
        for group, kind in self._store.kinds():
            for item in self._store.list(group, kind, namespace=namespace):
                self._delete(ObjectRef(group, kind, namespace, name_of(item)), item)
        return not any(self._store.list(group, kind, namespace=namespace) for group, kind in self._store.kinds())

    def _delete(self, ref: ObjectRef, item: Manifest) -> None:
        if ref.namespace and not is_deleting(item):
            self._store.delete(ref)

    def _orphan_dependents(self, uid: str) -> None:
        for _, item in self._dependents_of(uid):
            self._remove_owner(item, uid)

    def _remove_owner(self, item: Manifest, uid: str) -> None:
        left = [dict(owner) for owner in _owners(item) if owner.get("uid") != uid]
        self._store.replace(with_metadata(item, ownerReferences=left or None))

    def _remove_dependents(self, uid: str) -> bool:
        """Delete the dependents. Returns whether one that blocks its owner still exists."""
        for ref, item in self._dependents_of(uid):
            if self._has_other_owner(ref, item, uid):
                self._remove_owner(item, uid)
            elif not is_deleting(item):
                self._store.delete(ref)
        return any(
            owner.get("uid") == uid and owner.get("blockOwnerDeletion") is True
            for _, item in self._dependents_of(uid)
            for owner in _owners(item)
        )

    def _dependents_of(self, uid: str) -> Iterable[tuple[ObjectRef, Manifest]]:
        for ref in sorted(self._dependents.get(uid, ())):
            item = self._store.get(ref)
            if item is not None:
                yield ref, item

    def _has_other_owner(self, ref: ObjectRef, item: Manifest, uid: str) -> bool:
        return any(owner.get("uid") != uid and self._exists(ref.namespace, owner) for owner in _owners(item))

    def _check_owners(self, ref: ObjectRef, item: Manifest) -> None:
        owners = _owners(item)
        there = [owner for owner in owners if self._exists(ref.namespace, owner)]
        if not there:
            self._store.delete(ref)
        elif len(there) < len(owners):
            self._store.replace(with_metadata(item, ownerReferences=[dict(owner) for owner in there]))

    def _exists(self, namespace: str, owner: Mapping[str, object]) -> bool:
        places = (_owner_ref(namespace, owner), _owner_ref("", owner))
        found = (self._store.get(place) for place in places)
        return any(item is not None and uid_of(item) == owner.get("uid") for item in found)


def _owners(manifest: Manifest) -> list[Mapping[str, object]]:
    return [as_mapping(owner) for owner in as_list(metadata_of(manifest).get("ownerReferences"))]


def _owner_uids(manifest: Manifest) -> list[str]:
    return [str(owner.get("uid")) for owner in _owners(manifest)]


def _owner_ref(namespace: str, owner: Mapping[str, object]) -> ObjectRef:
    group = group_of(owner.get("apiVersion"))
    return ObjectRef(group, str(owner.get("kind")), namespace, str(owner.get("name")))
