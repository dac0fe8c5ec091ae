"""Caches as the engines mount them.

A cache is staged on a claim in the tenant's namespace of each cluster. An adapter that was left at the path of the
weights goes to a folder of its own: the path is the default of both, and one path holds one volume.
"""

from collections.abc import Mapping

from modelplane.api.models import CacheMount, ModelCache
from modelplane.api.names import make_name
from modelplane.api.reasons import Reason
from modelplane.compose.context import RenderError, Volume
from modelplane.compose.lowering import CACHE_PATH

ADAPTERS_PATH = "/mnt/adapters"


def claim_name(cache: ModelCache) -> str:
    """The claim that holds the cache on every cluster, in the tenant's namespace."""
    existing = cache.spec.storage.existing_pvc
    if existing is not None:
        return existing.claim_name
    return make_name(f"cache-{cache.metadata.name}", cache.metadata.namespace, cache.metadata.name)


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
    return [
        {
            "name": volume_name(index),
            "persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": True},
        }
        for index, volume in enumerate(volumes)
    ]


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
    path = mount.mount_path
    if kind == "Adapter" and path == CACHE_PATH:
        path = f"{ADAPTERS_PATH}/{mount.name}"
    existing = cache.spec.storage.existing_pvc
    return Volume(
        cache=mount.name,
        kind=kind,
        claim_name=claim_name(cache),
        mount_path=path,
        sub_path=existing.sub_path if existing else None,
        repository=cache.spec.hugging_face.repo if cache.spec.hugging_face else None,
    )
