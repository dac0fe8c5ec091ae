"""What composites asked to be told about: answers their requirements and knows whom a change concerns."""

from collections.abc import Callable, Iterator, Mapping

from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, group_of, labels_of
from modelplane.compose.contract import Requirement
from modelplane.reconcile.store import ObjectRef, Store, StoreChange

_Asked = tuple[ClusterName | None, str]
"""Where, and what kind."""
_Hint = str | tuple[str, str] | None
"""What an object must have to be meant: a name, or a label with its value. None where any may be."""


class Requirements:
    """`clusters` gives the store of a cluster, or None while it cannot be reached.

    Those who asked for an object are found by its name or by a label, so that a change costs as much as it concerns.
    """

    def __init__(self, store: Store, clusters: Callable[[ClusterName], Store | None] = lambda _name: None) -> None:
        self._store = store
        self._clusters = clusters
        self._wanted: dict[tuple[_Asked, _Hint], dict[ObjectRef, tuple[Requirement, ...]]] = {}
        self._asked: dict[ObjectRef, Mapping[str, Requirement]] = {}

    def fetch(self, owner: ObjectRef, wanted: Mapping[str, Requirement]) -> dict[str, tuple[Manifest, ...]]:
        """The objects asked for. The owner is woken when one of them changes, appears or goes.

        What is asked of a cluster that cannot be reached stays unfetched.
        """
        self.forget(owner)
        if wanted:
            self._asked[owner] = dict(wanted)
        found: dict[str, tuple[Manifest, ...]] = {}
        for name, requirement in wanted.items():
            by_owner = self._wanted.setdefault(_shelf(requirement), {})
            by_owner[owner] = (*by_owner.get(owner, ()), requirement)
            store = self._store if requirement.cluster is None else self._clusters(requirement.cluster)
            if store is not None:
                found[name] = _find(store, requirement)
        return found

    def asked_by(self, owner: ObjectRef) -> Mapping[str, Requirement]:
        """What the owner asked for last."""
        return self._asked.get(owner, {})

    def forget(self, owner: ObjectRef) -> None:
        for requirement in self._asked.pop(owner, {}).values():
            shelf = _shelf(requirement)
            by_owner = self._wanted.get(shelf, {})
            by_owner.pop(owner, None)
            if not by_owner:
                self._wanted.pop(shelf, None)

    def concerned(self, change: StoreChange, cluster: ClusterName | None = None) -> Iterator[ObjectRef]:
        """Whoever required the object as it is, or as it was: leaving a selection is news too."""
        versions = [manifest for manifest in (change.manifest, change.before) if manifest is not None]
        labels = {pair: None for manifest in versions for pair in labels_of(manifest).items()}
        told: set[ObjectRef] = set()
        for hint in (None, change.ref.name, *labels):
            for owner, requirements in self._wanted.get(((cluster, change.ref.kind), hint), {}).items():
                if owner not in told and any(_matches(r, change.ref, each) for r in requirements for each in versions):
                    told.add(owner)
                    yield owner


def _shelf(requirement: Requirement) -> tuple[_Asked, _Hint]:
    hint: _Hint = requirement.name
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
