"""The cluster's API: it can become unreachable, and it refuses objects whose namespace does not exist."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.api.objects import Manifest, finalizers_of, is_deleting, text_at, uid_of, with_metadata
from modelplane.k8s.deletion import Propagation, deletion_finalizers
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.controller import ClusterStore


class ClusterApi:
    """A Store in front of the cluster's own. While the cluster is down every call raises UnavailableError."""

    def __init__(self, cluster: str, store: ClusterStore) -> None:
        self._cluster = cluster
        self._store = store
        self.reachable = True

    @property
    def revision(self) -> int:
        return self._require_reachable().revision

    def get(self, ref: ObjectRef) -> Manifest | None:
        return self._require_reachable().get(ref)

    def list(
        self, group: str, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Manifest, ...]:
        return self._require_reachable().list(group, kind, namespace=namespace, labels=labels)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        return self._require_reachable().kinds()

    def create(self, manifest: Manifest) -> Manifest:
        store = self._require_reachable()
        namespace = text_at(manifest, "metadata", "namespace")
        if namespace and store.get(ObjectRef("", "Namespace", "", namespace)) is None:
            kind, name = text_at(manifest, "kind"), text_at(manifest, "metadata", "name")
            raise NotFoundError(f"cluster {self._cluster}: {kind} {name}: namespace {namespace} not found")
        return store.create(manifest)

    def replace(self, manifest: Manifest) -> Manifest:
        return self._require_reachable().replace(manifest)

    def replace_status(self, manifest: Manifest) -> Manifest:
        return self._require_reachable().replace_status(manifest)

    def delete(self, ref: ObjectRef, *, uid: str | None = None, propagation: Propagation | None = None) -> None:
        """Without a policy, dependents are deleted in the background, and pods of a Job stay."""
        store = self._require_reachable()
        item = store.get(ref)
        if item is not None and not is_deleting(item) and uid in {None, uid_of(item)}:
            wanted = deletion_finalizers(ref.group, ref.kind, finalizers_of(item), propagation)
            if wanted != list(finalizers_of(item)):
                store.replace(with_metadata(item, finalizers=wanted or None))
        store.delete(ref, uid=uid)

    def subscribe(self, listener: Callable[[StoreChange], None]) -> Callable[[], None]:
        return self._store.subscribe(listener)

    def batch(self) -> AbstractContextManager[None]:
        return self._store.batch()

    def _require_reachable(self) -> ClusterStore:
        if not self.reachable:
            raise UnavailableError(f"cluster {self._cluster} is unreachable")
        return self._store
