"""The volume of a cache on a cluster.

A claim is named after its namespace and the key of the source, so caches with the same source share one. It says by
annotations that it is complete: that is observed, and outlives a lost status, but not the claim.
"""

from dataclasses import dataclass
from typing import Literal

from modelplane.api.cluster_storage import declared_class
from modelplane.api.labels import CACHE, STAGED, STAGED_ON
from modelplane.api.models import ExistingPVC, InferenceCluster, ModelCache
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, annotations_of, manifest, text_at, with_metadata
from modelplane.compose.caching.source import CacheSource, source_of
from modelplane.compose.context import remote_namespace

SHARED_CLASS = "modelplane-rwx"
_SMALL_GIB = 1
"""Size of a volume for a ConfigMap or an inline file, which have no size of their own."""


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """Where an artifact is staged, in one form for every way of writing it."""

    type: Literal["PVC", "ExistingPVC", "Image"]
    size_gib: int = _SMALL_GIB
    storage_class: str | None = None
    access_mode: str = "ReadWriteMany"
    existing: ExistingPVC | None = None


def storage_of(cache: ModelCache) -> StorageSpec:
    storage = cache.spec.storage
    older = storage.pvc
    return StorageSpec(
        storage.backend or storage.type_,
        storage.size_gi_b or (older.size_gi_b if older else None) or _hub_size(cache) or _SMALL_GIB,
        storage.storage_class_name or (older.storage_class_name if older else None),
        older.access_mode if older else storage.access_mode,
        storage.existing_pvc,
    )


def source_fault(cache: ModelCache) -> str | None:
    """Why nothing can be staged: a cache without a source, which the API refuses, was not read as it is stored."""
    if source_of(cache) is not None or storage_of(cache).type == "ExistingPVC":
        return None
    return "spec.source: the cache has no source"


def _hub_size(cache: ModelCache) -> int | None:
    newer, older = cache.spec.hugging_face, cache.spec.artifact.source
    if newer is not None:
        return newer.size_gi_b
    return older.hugging_face.size_gi_b if older and older.hugging_face else None


def claim_name(namespace: str, key: str) -> str:
    """The claim of a source, in the tenant's namespace of every cluster."""
    return make_name(f"cache-{key}", namespace, key)


def storage_class(cluster: InferenceCluster, storage: StorageSpec) -> str | None:
    """The StorageClass of the volume; None for the cluster's default one."""
    made = SHARED_CLASS if cluster.spec.storage.shared_filesystem is not None else None
    return storage.storage_class or declared_class(cluster) or made


def storage_fault(cluster: InferenceCluster, storage: StorageSpec) -> str | None:
    """Why the cluster has no volume for it."""
    drivers = cluster.spec.storage.csi_drivers
    if storage.access_mode == "ReadWriteOnce" or storage_class(cluster, storage) is not None:
        return None
    if drivers and "SharedFilesystem" not in drivers:
        found = ", ".join(drivers)
        return f"the cluster has {found} and no SharedFilesystem in spec.storage.csiDrivers, and names no StorageClass"
    return None


def claim(cache: ModelCache, source: CacheSource, storage: StorageSpec, cluster: InferenceCluster) -> Manifest:
    found = storage_class(cluster, storage)
    spec: dict[str, object] = {
        "accessModes": [storage.access_mode],
        "resources": {"requests": {"storage": f"{storage.size_gib}Gi"}},
        **({"storageClassName": found} if found else {}),
    }
    namespace = cache.metadata.namespace
    name = claim_name(namespace, source.key)
    labels = {CACHE: cache.metadata.name}
    return manifest(
        "v1", "PersistentVolumeClaim", name, namespace=remote_namespace(namespace), labels=labels, spec=spec
    )


def as_staged(volume: Manifest, digest: str, uid: str) -> Manifest:
    """The claim, marked as complete. `uid` is that of the claim that was filled."""
    marks = {STAGED: digest, **({STAGED_ON: uid} if uid else {})}
    return with_metadata(volume, annotations={**annotations_of(volume), **marks})


def staged_digest(volume: Manifest) -> str | None:
    """What is on a claim that is complete; None while it is not.

    Whoever makes a deleted claim anew may give it the annotations of the old one, and it is empty.
    """
    marks, uid = annotations_of(volume), uid_of(volume)
    filled = marks.get(STAGED_ON)
    return None if filled and uid and filled != uid else marks.get(STAGED)


def uid_of(volume: Manifest) -> str:
    return text_at(volume, "metadata", "uid")


def is_lost(volume: Manifest) -> bool:
    return text_at(volume, "status", "phase") == "Lost"
