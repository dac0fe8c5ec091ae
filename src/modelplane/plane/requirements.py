"""Fetches the objects that composites require, and finds the composites that require a changed object."""

from collections.abc import Callable, Iterator, Mapping

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, group_of, labels_of
from modelplane.compose.contract import Requirement
from modelplane.reconcile.store import ObjectRef, Store, StoreChange

_KindKey = tuple[ClusterName | None, str]
"""Where, and what kind."""
_IndexHint = str | tuple[str, str] | None
"""What the index uses of a requirement: a name, or a label with its value. None where neither is given."""


class Requirements:
    """`clusters` gives the store of a cluster, or None while it is unreachable.

    Composites are indexed by the name or a label that they require, so that a change does not scan all of them.
    """

    def __init__(self, store: Store, clusters: Callable[[ClusterName], Store | None] = lambda _name: None) -> None:
        self._store = store
        self._clusters = clusters
        self._wanted: dict[tuple[_KindKey, _IndexHint], dict[ObjectRef, tuple[Requirement, ...]]] = {}
        self._by_owner: dict[ObjectRef, Mapping[str, Requirement]] = {}

    def fetch(self, owner: ObjectRef, wanted: Mapping[str, Requirement]) -> dict[str, tuple[Manifest, ...]]:
        """The required objects. The owner is enqueued when one of them is added, changed or deleted.

        Requirements on an unreachable cluster are absent from the result.
        """
        self.forget(owner)
        if wanted:
            self._by_owner[owner] = dict(wanted)
        found: dict[str, tuple[Manifest, ...]] = {}
        for name, requirement in wanted.items():
            by_owner = self._wanted.setdefault(_index_key(requirement), {})
            by_owner[owner] = (*by_owner.get(owner, ()), requirement)
            store = self._store if requirement.cluster is None else self._clusters(requirement.cluster)
            if store is not None:
                found[name] = _find(store, requirement)
        return found

    def requirements_of(self, owner: ObjectRef) -> Mapping[str, Requirement]:
        """What the owner required last."""
        return self._by_owner.get(owner, {})

    def forget(self, owner: ObjectRef) -> None:
        for requirement in self._by_owner.pop(owner, {}).values():
            index_key = _index_key(requirement)
            by_owner = self._wanted.get(index_key, {})
            by_owner.pop(owner, None)
            if not by_owner:
                self._wanted.pop(index_key, None)

    def owners_requiring(self, change: StoreChange, cluster: ClusterName | None = None) -> Iterator[ObjectRef]:
        """The composites that required the object as it is or as it was before the change."""
        versions = [manifest for manifest in (change.manifest, change.before) if manifest is not None]
        labels = {pair: None for manifest in versions for pair in labels_of(manifest).items()}
        seen: set[ObjectRef] = set()
        for hint in (None, change.ref.name, *labels):
            for owner, requirements in self._wanted.get(((cluster, change.ref.kind), hint), {}).items():
                if owner not in seen and any(_matches(r, change.ref, each) for r in requirements for each in versions):
                    seen.add(owner)
                    yield owner


def _index_key(requirement: Requirement) -> tuple[_KindKey, _IndexHint]:
    hint: _IndexHint = requirement.name
    if hint is None and requirement.labels:
        hint = min(requirement.labels.items())
    return (requirement.cluster, requirement.kind), hint


def _find(store: Store, requirement: Requirement) -> tuple[Manifest, ...]:
    group = group_of(requirement.api_version)
    if requirement.name is not None:
        ref = ObjectRef(group, requirement.kind, requirement.namespace or "", requirement.name)
        found = store.get(ref)
        return () if found is None else (found,)
    return store.list(group, requirement.kind, namespace=requirement.namespace, labels=requirement.labels)


def _matches(requirement: Requirement, ref: ObjectRef, manifest: Manifest) -> bool:
    if group_of(requirement.api_version) != ref.group or requirement.namespace not in {None, ref.namespace}:
        return False
    if requirement.name is not None:
        return requirement.name == ref.name
    labels = labels_of(manifest)
    return all(labels.get(key) == value for key, value in requirement.labels.items())
