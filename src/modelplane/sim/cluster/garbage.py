"""The garbage collector and the namespace controller.

Owner references match by uid, so a recreated owner does not keep the dependents of the old one. Deletion is in the
background unless the API left a finalizer: the owner is deleted first. An object with several owners stays while one of
them exists. Foreground deletion waits until the dependents are deleted; one with another owner only loses the
reference. Orphaned dependents lose it and stay.
"""

from collections.abc import Iterable, Mapping

from modelplane.api.objects import (
    Manifest,
    finalizers_of,
    group_of,
    is_deleting,
    items_at,
    namespace_of,
    uid_of,
    with_metadata,
)
from modelplane.k8s.deletion import FOREGROUND, ORPHAN
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ClusterStore, ControllerContext, is_about


def delete_in_foreground(store: ClusterStore, item: Manifest) -> None:
    """Delete an object in the foreground: its dependents are deleted first."""
    held = store.replace(with_metadata(item, finalizers=[*finalizers_of(item), FOREGROUND]))
    store.delete(ref_of(held), uid=uid_of(held))


class GarbageCollector:
    """Deletes dependents of deleted objects. Its index of owners is built from the changes of the store."""

    name = "garbage"
    kinds = None

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store
        self._dependents: dict[str, set[ObjectRef]] = {}

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if change.type is ChangeType.DELETED:
            for uid in _owner_uids(change.manifest):
                self._forget(uid, change.ref)
            return [*sorted(self._dependents.get(uid_of(change.manifest), ())), *_owner_refs(change.manifest)]
        for uid in _owner_uids(change.manifest):
            self._dependents.setdefault(uid, set()).add(change.ref)
        added = change.type is ChangeType.ADDED and _owner_uids(change.manifest)
        return (change.ref,) if added or _waits_for_dependents(change.manifest) else ()

    def _forget(self, uid: str, ref: ObjectRef) -> None:
        known = self._dependents.get(uid, set())
        known.discard(ref)
        if not known:
            self._dependents.pop(uid, None)

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None:
            return Done()
        if is_deleting(item) and ORPHAN in finalizers_of(item):
            self._orphan_dependents(item)
        elif _waits_for_dependents(item):
            self._delete_dependents(item)
        elif not is_deleting(item) and self._is_orphan(item):
            self._store.delete(ref, uid=uid_of(item))
        return Done()

    def _delete_dependents(self, item: Manifest) -> None:
        """Delete the dependents in the foreground; remove the finalizer when there are none."""
        left = False
        for each in self._dependents_of(item):
            if self._has_other_owner(each, uid_of(item)):
                self._remove_owner(each, uid_of(item))
                continue
            left = True
            if not is_deleting(each):
                delete_in_foreground(self._store, each)
        if not left:
            self._release(item, FOREGROUND)

    def _orphan_dependents(self, item: Manifest) -> None:
        for each in self._dependents_of(item):
            self._remove_owner(each, uid_of(item))
        self._release(item, ORPHAN)

    def _dependents_of(self, item: Manifest) -> list[Manifest]:
        found = (self._store.get(ref) for ref in sorted(self._dependents.get(uid_of(item), ())))
        return [each for each in found if each is not None and uid_of(item) in _owner_uids(each)]

    def _remove_owner(self, item: Manifest, uid: str) -> None:
        owners = [dict(owner) for owner in items_at(item, "metadata", "ownerReferences") if owner.get("uid") != uid]
        self._store.replace(with_metadata(item, ownerReferences=owners or None))
        self._forget(uid, ref_of(item))

    def _has_other_owner(self, item: Manifest, uid: str) -> bool:
        owners = [owner for owner in items_at(item, "metadata", "ownerReferences") if owner.get("uid") != uid]
        return any(self._exists(namespace_of(item), owner) for owner in owners)

    def _release(self, item: Manifest, finalizer: str) -> None:
        left = [name for name in finalizers_of(item) if name != finalizer]
        self._store.replace(with_metadata(item, finalizers=left or None))

    def _is_orphan(self, item: Manifest) -> bool:
        owners = list(items_at(item, "metadata", "ownerReferences"))
        return bool(owners) and not any(self._exists(namespace_of(item), owner) for owner in owners)

    def _exists(self, namespace: str, owner: Mapping[str, object]) -> bool:
        group = group_of(owner.get("apiVersion"))
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        places = (ObjectRef(group, kind, namespace, name), ObjectRef(group, kind, "", name))
        found = (self._store.get(place) for place in places)
        return any(item is not None and uid_of(item) == owner.get("uid") for item in found)


class Namespaces:
    """Deletes the contents of namespaces that do not exist."""

    name = "namespaces"
    kinds = None

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Namespace"):
            return (change.ref,)
        added = change.type is ChangeType.ADDED and change.ref.namespace
        return (ObjectRef("", "Namespace", "", change.ref.namespace),) if added else ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        namespace = self._store.get(ref)
        if namespace is not None:
            self._store.replace_status({**namespace, "status": {"phase": "Active"}})
            return Done()
        for group, kind in self._store.kinds():
            for item in self._store.list(group, kind, namespace=ref.name):
                if not is_deleting(item):
                    self._store.delete(ref_of(item))
        return Done()


def _owner_uids(item: Manifest) -> list[str]:
    return [str(owner.get("uid")) for owner in items_at(item, "metadata", "ownerReferences")]


def _owner_refs(item: Manifest) -> list[ObjectRef]:
    """References of the owners in the same namespace."""
    owners = [
        (group_of(owner.get("apiVersion")), str(owner.get("kind")), str(owner.get("name")))
        for owner in items_at(item, "metadata", "ownerReferences")
    ]
    return [ObjectRef(group, kind, namespace_of(item), name) for group, kind, name in owners]


def _waits_for_dependents(item: Manifest) -> bool:
    return is_deleting(item) and not {FOREGROUND, ORPHAN}.isdisjoint(finalizers_of(item))
