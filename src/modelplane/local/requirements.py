"""What composites asked to be told about: answers their requirements and knows whom a change concerns."""

from collections.abc import Iterator, Mapping

from modelplane.compose.contract import Manifest, Requirement
from modelplane.reconcile.store import Change, ObjectRef, Store


class Requirements:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: dict[str, dict[ObjectRef, tuple[Requirement, ...]]] = {}

    def fetch(self, owner: ObjectRef, wanted: Mapping[str, Requirement]) -> dict[str, tuple[Manifest, ...]]:
        """The objects asked for. The owner is woken when one of them changes, appears or goes.

        What is asked of another cluster stays unfetched: only the plane's own objects are looked at.
        """
        self.forget(owner)
        wanted = {name: requirement for name, requirement in wanted.items() if requirement.cluster is None}
        for requirement in wanted.values():
            by_owner = self._wanted.setdefault(requirement.kind, {})
            by_owner[owner] = (*by_owner.get(owner, ()), requirement)
        return {name: self._find(requirement) for name, requirement in wanted.items()}

    def forget(self, owner: ObjectRef) -> None:
        for by_owner in self._wanted.values():
            by_owner.pop(owner, None)

    def concerned(self, change: Change) -> Iterator[ObjectRef]:
        """Whoever required the object as it is, or as it was: leaving a selection is news too."""
        versions = [manifest for manifest in (change.manifest, change.before) if manifest is not None]
        for owner, requirements in self._wanted.get(change.ref.kind, {}).items():
            if any(_matches(each, change.ref, manifest) for each in requirements for manifest in versions):
                yield owner

    def _find(self, requirement: Requirement) -> tuple[Manifest, ...]:
        group = _group(requirement.api_version)
        if requirement.name is not None:
            ref = ObjectRef(group, requirement.kind, requirement.namespace or "", requirement.name)
            found = self._store.get(ref)
            return () if found is None else (found,)
        return self._store.list(group, requirement.kind, namespace=requirement.namespace, labels=requirement.labels)


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
