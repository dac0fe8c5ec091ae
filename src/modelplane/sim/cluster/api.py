"""The cluster's API as others see it: it can stop answering, and it refuses what has no namespace."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.objects import Manifest, text_at
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.controller import ClusterStore


class ClusterApi:
    """A Store in front of the cluster's own. While the cluster is down every call raises UnavailableError."""

    def __init__(self, cluster: str, store: ClusterStore) -> None:
        self._cluster = cluster
        self._store = store
        self.answers = True

    @property
    def revision(self) -> int:
        return self._reached().revision

    def get(self, ref: ObjectRef) -> Manifest | None:
        return self._reached().get(ref)

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        return self._reached().list(group, kind, namespace=namespace, labels=labels)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        return self._reached().kinds()

    def create(self, manifest: Manifest) -> Manifest:
        store = self._reached()
        namespace = text_at(manifest, "metadata", "namespace")
        if namespace and store.get(ObjectRef("", "Namespace", "", namespace)) is None:
            kind, name = text_at(manifest, "kind"), text_at(manifest, "metadata", "name")
            raise NotFoundError(f"cluster {self._cluster}: {kind} {name}: namespace {namespace} not found")
        return store.create(manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        return self._reached().replace(manifest)

    def replace_status(self, manifest: Manifest) -> Manifest:
        return self._reached().replace_status(manifest)

    def delete(self, ref: ObjectRef, *, uid: str | None = None) -> None:
        self._reached().delete(ref, uid=uid)

    def subscribe(self, listener: Callable[[StoreChange], None]) -> Callable[[], None]:
        return self._store.subscribe(listener)

    def batch(self) -> AbstractContextManager[None]:
        return self._store.batch()

    def _reached(self) -> ClusterStore:
        if not self.answers:
            raise UnavailableError(f"cluster {self._cluster} does not answer")
        return self._store
