"""What goes when something else is gone: objects whose owners no longer exist, and everything in a deleted namespace.

Owners are known by uid, so an object that was made again under the same name does not keep the old one's dependents.
Deletion is in the background, as kubectl's default: the owner goes first. An object that names several owners stays
while one of them is there.
"""

from collections.abc import Iterable, Mapping

from modelplane.local.cluster.controller import Site, is_about
from modelplane.local.cluster.objects import is_deleting, items_at, namespace_of, ref_of, uid_of
from modelplane.reconcile.outcomes import Outcome, Settled
from modelplane.reconcile.store import Change, ChangeType, Manifest, ObjectRef


class Garbage:
    """Deletes dependents. Who depends on whom it learns from every change it hears, from the first on."""

    name = "garbage"

    def __init__(self, site: Site) -> None:
        self._store = site.store
        self._dependents: dict[str, set[ObjectRef]] = {}

    def concerns(self, change: Change) -> Iterable[ObjectRef]:
        if change.type is ChangeType.DELETED:
            for uid in _owner_uids(change.manifest):
                self._forget(uid, change.ref)
            return sorted(self._dependents.get(uid_of(change.manifest), ()))
        for uid in _owner_uids(change.manifest):
            self._dependents.setdefault(uid, set()).add(change.ref)
        added = change.type is ChangeType.ADDED and _owner_uids(change.manifest)
        return (change.ref,) if added else ()

    def _forget(self, uid: str, ref: ObjectRef) -> None:
        known = self._dependents.get(uid, set())
        known.discard(ref)
        if not known:
            self._dependents.pop(uid, None)

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is not None and not is_deleting(item) and self._is_orphan(item):
            self._store.delete(ref, uid=uid_of(item))
        return Settled()

    def _is_orphan(self, item: Manifest) -> bool:
        owners = list(items_at(item, "metadata", "ownerReferences"))
        return bool(owners) and not any(self._exists(namespace_of(item), owner) for owner in owners)

    def _exists(self, namespace: str, owner: Mapping[str, object]) -> bool:
        group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        places = (ObjectRef(group, kind, namespace, name), ObjectRef(group, kind, "", name))
        found = (self._store.get(place) for place in places)
        return any(item is not None and uid_of(item) == owner.get("uid") for item in found)


class Namespaces:
    """Empties namespaces that do not exist. A real API server refuses to create anything in them in the first place."""

    name = "namespaces"

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.store

    def concerns(self, change: Change) -> Iterable[ObjectRef]:
        if is_about(change, "", "Namespace"):
            return (change.ref,)
        added = change.type is ChangeType.ADDED and change.ref.namespace
        return (ObjectRef("", "Namespace", "", change.ref.namespace),) if added else ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        namespace = self._store.get(ref)
        if namespace is not None:
            self._store.replace_status({**namespace, "status": {"phase": "Active"}})
            return Settled()
        for group, kind in self._store.kinds():
            for item in self._store.list(group, kind, namespace=ref.name):
                if not is_deleting(item):
                    self._store.delete(ref_of(item))
        return Settled()


def _owner_uids(item: Manifest) -> list[str]:
    return [str(owner.get("uid")) for owner in items_at(item, "metadata", "ownerReferences")]
