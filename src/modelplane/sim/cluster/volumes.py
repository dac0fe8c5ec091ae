"""Volumes: claims get a volume of their class, at once or when the first pod that uses them is placed.

Every class has a provisioner that never runs out. A claim that names no class gets the default one. Access modes, sizes
and topologies are taken as they are asked for. Where the settings name a folder, each volume is one below it, and is
removed with the volume; otherwise nothing is stored, and what a Job wrote is known only by its having ended.
"""

from collections.abc import Iterable, Iterator

from modelplane.api.objects import (
    Json,
    Manifest,
    is_deleting,
    items_at,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ClusterStore, ControllerContext, changed, is_about
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import annotation, with_spec, with_status
from modelplane.sim.cluster.volume_folders import VolumeFolders

STORAGE_GROUP = "storage.k8s.io"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_LATE = "WaitForFirstConsumer"


class Volumes:
    """Binds PersistentVolumeClaims."""

    name = "volumes"
    kinds = frozenset(
        {("", "PersistentVolumeClaim"), ("", "PersistentVolume"), (STORAGE_GROUP, "StorageClass"), ("", "Pod")}
    )

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store
        self._folders = VolumeFolders(context.settings.volumes, context.cluster, context.store)

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "PersistentVolumeClaim"):
            return (change.ref, ObjectRef("", "PersistentVolume", "", f"pvc-{uid_of(change.manifest)}"))
        if is_about(change, STORAGE_GROUP, "StorageClass"):
            return [ref_of(item) for item in self._store.list("", "PersistentVolumeClaim")]
        if is_about(change, "", "PersistentVolume"):
            return (change.ref,)
        if is_about(change, "", "Pod") and changed(change, node_of):
            return [_claim_ref(change.ref.namespace, name) for name in volume_claims(change.manifest)]
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None or is_deleting(item):
            return Done()
        if ref.kind == "PersistentVolume":
            self._reclaim(item)
        elif text_at(item, "status", "phase") != "Bound":
            self._bind(item)
        return Done()

    def _bind(self, claim: Manifest) -> None:
        found = storage_class(claim, self._store)
        if found is None or (value_at(found, "volumeBindingMode") == _LATE and not self._is_used(claim)):
            self._store.replace_status(with_status(claim, phase="Pending"))
            return
        name = f"pvc-{uid_of(claim)}"
        if self._store.get(ObjectRef("", "PersistentVolume", "", name)) is None:
            made = self._store.create(_volume(name, claim, found))
            self._store.replace_status(with_status(made, phase="Bound"))
        bound = self._store.replace(with_spec(claim, volumeName=name, storageClassName=name_of(found)))
        capacity = mapping_at(claim, "spec", "resources", "requests")
        modes = value_at(claim, "spec", "accessModes")
        self._store.replace_status(with_status(bound, phase="Bound", capacity=dict(capacity), accessModes=modes))

    def _is_used(self, claim: Manifest) -> bool:
        pods = self._store.list("", "Pod", namespace=namespace_of(claim))
        return any(node_of(pod) and name_of(claim) in volume_claims(pod) for pod in pods)

    def _reclaim(self, volume: Manifest) -> None:
        """A volume goes with its claim, unless its class keeps it."""
        ref = mapping_at(volume, "spec", "claimRef")
        claim = self._store.get(_claim_ref(str(ref.get("namespace", "")), str(ref.get("name", ""))))
        if claim is not None and uid_of(claim) == ref.get("uid"):
            return
        if text_at(volume, "spec", "persistentVolumeReclaimPolicy") == "Retain":
            self._store.replace_status(with_status(volume, phase="Released"))
        else:
            self._store.delete(ref_of(volume))
            self._folders.remove(name_of(volume))


def storage_class(claim: Manifest, store: ClusterStore) -> Manifest | None:
    named = value_at(claim, "spec", "storageClassName")
    if isinstance(named, str):
        return store.get(ObjectRef(STORAGE_GROUP, "StorageClass", "", named))
    classes = store.list(STORAGE_GROUP, "StorageClass")
    return next((item for item in classes if annotation(item, DEFAULT_CLASS) == "true"), None)


def volume_claims(pod: Manifest) -> list[str]:
    """The names of the claims that a pod mounts."""
    return [name for entry in items_at(pod, "spec", "volumes") for name in _claim_names(entry)]


def _claim_names(volume: Manifest) -> Iterator[str]:
    name = value_at(volume, "persistentVolumeClaim", "claimName")
    if isinstance(name, str):
        yield name


def volume_fault(pod: Manifest, store: ClusterStore) -> str | None:
    """Why the volumes of a pod keep it from being placed, in the words of kube-scheduler."""
    for name in volume_claims(pod):
        claim = store.get(_claim_ref(namespace_of(pod), name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if is_deleting(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        late = value_at(storage_class(claim, store) or {}, "volumeBindingMode") == _LATE
        if text_at(claim, "status", "phase") != "Bound" and not late:
            return "pod has unbound immediate PersistentVolumeClaims"
    return None


def _claim_ref(namespace: str, name: str) -> ObjectRef:
    return ObjectRef("", "PersistentVolumeClaim", namespace, name)


def _volume(name: str, claim: Manifest, found: Manifest) -> Json:
    policy = text_at(found, "reclaimPolicy") or "Delete"
    reference = {"kind": "PersistentVolumeClaim", "namespace": namespace_of(claim), "name": name_of(claim)}
    spec = {
        "storageClassName": name_of(found),
        "capacity": dict(mapping_at(claim, "spec", "resources", "requests")),
        "accessModes": value_at(claim, "spec", "accessModes"),
        "persistentVolumeReclaimPolicy": policy,
        "claimRef": {**reference, "uid": uid_of(claim)},
    }
    return manifest("v1", "PersistentVolume", name, spec=spec)
