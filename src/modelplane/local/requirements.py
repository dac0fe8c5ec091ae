"""What composites asked to be told about: answers their requirements and knows whom a change concerns."""

from collections.abc import Callable, Iterator, Mapping

from modelplane.api.meta import ClusterName
from modelplane.compose.contract import Manifest, Requirement
from modelplane.reconcile.store import Change, ObjectRef, Store

_Asked = tuple[ClusterName | None, str]
"""Where, and what kind."""


class Requirements:
    """`clusters` gives the store of a cluster, or None while it cannot be reached.

    Those who asked for one object are found by its name, so that a change costs as much as it concerns.
    """

    def __init__(self, store: Store, clusters: Callable[[ClusterName], Store | None] = lambda _name: None) -> None:
        self._store = store
        self._clusters = clusters
        self._by_name: dict[tuple[_Asked, str], dict[ObjectRef, tuple[Requirement, ...]]] = {}
        self._by_labels: dict[_Asked, dict[ObjectRef, tuple[Requirement, ...]]] = {}
        self._asked: dict[ObjectRef, tuple[Requirement, ...]] = {}

    def fetch(self, owner: ObjectRef, wanted: Mapping[str, Requirement]) -> dict[str, tuple[Manifest, ...]]:
        """The objects asked for. The owner is woken when one of them changes, appears or goes.

        What is asked of a cluster that cannot be reached stays unfetched.
        """
        self.forget(owner)
        if wanted:
            self._asked[owner] = tuple(wanted.values())
        found: dict[str, tuple[Manifest, ...]] = {}
        for name, requirement in wanted.items():
            by_owner = self._askers(requirement)
            by_owner[owner] = (*by_owner.get(owner, ()), requirement)
            store = self._store if requirement.cluster is None else self._clusters(requirement.cluster)
            if store is not None:
                found[name] = _find(store, requirement)
        return found

    def forget(self, owner: ObjectRef) -> None:
        for requirement in self._asked.pop(owner, ()):
            self._askers(requirement).pop(owner, None)
            self._tidy(requirement)

    def concerned(self, change: Change, cluster: ClusterName | None = None) -> Iterator[ObjectRef]:
        """Whoever required the object as it is, or as it was: leaving a selection is news too."""
        versions = [manifest for manifest in (change.manifest, change.before) if manifest is not None]
        asked = (cluster, change.ref.kind)
        for askers in (self._by_name.get((asked, change.ref.name), {}), self._by_labels.get(asked, {})):
            for owner, requirements in askers.items():
                if any(_matches(each, change.ref, manifest) for each in requirements for manifest in versions):
                    yield owner

    def _askers(self, requirement: Requirement) -> dict[ObjectRef, tuple[Requirement, ...]]:
        asked = (requirement.cluster, requirement.kind)
        if requirement.name is not None:
            return self._by_name.setdefault((asked, requirement.name), {})
        return self._by_labels.setdefault(asked, {})

    def _tidy(self, requirement: Requirement) -> None:
        if self._askers(requirement):
            return
        asked = (requirement.cluster, requirement.kind)
        if requirement.name is not None:
            del self._by_name[asked, requirement.name]
        else:
            del self._by_labels[asked]


def _find(store: Store, requirement: Requirement) -> tuple[Manifest, ...]:
    group = _group(requirement.api_version)
    if requirement.name is not None:
        ref = ObjectRef(group, requirement.kind, requirement.namespace or "", requirement.name)
        found = store.get(ref)
        return () if found is None else (found,)
    return store.list(group, requirement.kind, namespace=requirement.namespace, labels=requirement.labels)


def _matches(requirement: Requirement, ref: ObjectRef, manifest: Manifest) -> bool:
    if _group(requirement.api_version) != ref.group or requirement.namespace not in {None, ref.namespace}:
        return False
    if requirement.name is not None:
        return requirement.name == ref.name
    metadata = manifest.get("metadata")
    labels = metadata.get("labels", {}) if isinstance(metadata, Mapping) else {}
    return all(labels.get(key) == value for key, value in requirement.labels.items())


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
