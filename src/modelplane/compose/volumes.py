"""Caches as the engines mount them.

A cache is staged on a claim in the tenant's namespace of each cluster. A cache without a path of its own is mounted
where artifacts of its kind are: weights at /mnt/models, and each adapter and each other artifact in a folder of its
own.
"""

from collections.abc import Mapping

from modelplane.api.models import CacheMount, ModelCache
from modelplane.api.reasons import Reason
from modelplane.compose.caching.source import source_of
from modelplane.compose.caching.storage import claim_name, storage_of
from modelplane.compose.context import RenderError, Volume
from modelplane.compose.lowering import CACHE_PATH

ADAPTERS_PATH, ARTIFACTS_PATH = "/mnt/adapters", "/mnt/artifacts"
HUB = "hub"
"""Where a volume has the cache of the Hugging Face hub."""


def volumes_of(mounts: tuple[CacheMount, ...], caches: Mapping[str, ModelCache]) -> tuple[Volume, ...]:
    volumes = tuple(_volume(mount, caches[mount.name]) for mount in mounts)
    taken: dict[str, str] = {}
    for volume in volumes:
        other = taken.setdefault(volume.mount_path, volume.cache)
        if other != volume.cache:
            message = f"spec.caches: {other} and {volume.cache} are both mounted at {volume.mount_path}"
            raise RenderError(Reason.INVALID, message)
    return volumes


def volume_name(index: int) -> str:
    return f"cache-{index}"


def pod_volumes(volumes: tuple[Volume, ...]) -> list[dict[str, object]]:
    return [{"name": volume_name(index), **_mounted(volume)} for index, volume in enumerate(volumes)]


def _mounted(volume: Volume) -> dict[str, object]:
    if volume.image is not None:
        # A tag may move, a digest cannot.
        policy = "IfNotPresent" if "@sha256:" in volume.image else "Always"
        return {"image": {"reference": volume.image, "pullPolicy": policy}}
    return {"persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": True}}


def volume_mounts(volumes: tuple[Volume, ...]) -> list[dict[str, object]]:
    return [
        {
            "name": volume_name(index),
            "mountPath": volume.mount_path,
            "readOnly": True,
            **({"subPath": volume.sub_path} if volume.sub_path else {}),
        }
        for index, volume in enumerate(volumes)
    ]


def _volume(mount: CacheMount, cache: ModelCache) -> Volume:
    kind = cache.spec.artifact.kind
    storage, source = storage_of(cache), source_of(cache)
    key = mount.key or (source.key if source is not None else "")
    oci = cache.spec.oci if storage.type == "Image" else None
    return Volume(
        cache=mount.name,
        kind=kind,
        claim_name=storage.existing.claim_name if storage.existing else claim_name(cache.metadata.namespace, key),
        mount_path=_path(mount, kind),
        sub_path=_sub_path(cache),
        repository=str(source.document["repo"]) if source is not None and "repo" in source.document else None,
        image=oci.reference if oci is not None else None,
        staged=storage.type == "PVC",
        key=key,
        size_gib=storage.size_gib if storage.type == "PVC" else 0,
    )


def _path(mount: CacheMount, kind: str) -> str:
    """An adapter that was given the path of weights is moved: one path holds one volume."""
    given = mount.mount_path
    if given is not None and not (kind == "Adapter" and given == CACHE_PATH):
        return given
    if kind == "Weights":
        return CACHE_PATH
    return f"{ADAPTERS_PATH if kind == 'Adapter' else ARTIFACTS_PATH}/{mount.name}"


def _sub_path(cache: ModelCache) -> str | None:
    storage = storage_of(cache)
    if storage.type == "Image":
        return cache.spec.oci.sub_path if cache.spec.oci is not None else None
    return storage.existing.sub_path if storage.existing else None
