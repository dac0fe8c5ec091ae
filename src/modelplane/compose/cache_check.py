"""The init container that looks at the volumes of caches: no engine starts on one that was emptied or replaced.

It runs the loader's image. A claim that exists and an image volume have no marker of ours and are not looked at.
"""

from collections.abc import Iterable

from modelplane.api.labels import CACHE_CHECK_CONTAINER
from modelplane.api.objects import Manifest, mapping_at
from modelplane.compose.caching.job import LOADER_USER
from modelplane.compose.context import Context
from modelplane.compose.tenancy import OWN_SECURITY
from modelplane.compose.volumes import volume_mounts

_RESOURCES = {"cpu": "500m", "memory": "256Mi"}


def cache_check(context: Context, containers: Iterable[Manifest]) -> list[dict[str, object]]:
    """None where no volume was staged by the loader. `containers` are those of the pod."""
    staged = [
        (volume, mount)
        for volume, mount in zip(context.volumes, volume_mounts(context.volumes), strict=True)
        if volume.staged
    ]
    if not staged or not context.images.loader:
        return []
    container: dict[str, object] = {
        "name": CACHE_CHECK_CONTAINER,
        "image": context.images.loader,
        "args": ["check", *(f"--staged={volume.key}={volume.mount_path}" for volume, _ in staged)],
        **_resources(containers),
        "securityContext": {**OWN_SECURITY, "runAsUser": LOADER_USER},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount for _, mount in staged],
    }
    return [container]


def _resources(containers: Iterable[Manifest]) -> dict[str, object]:
    """Requests and limits alike, so that a pod of the class Guaranteed stays one, of what the pod requests anyway.

    Kueue does not admit a pod that requests what its queue has no quota of.
    """
    lists = [mapping_at(each, "resources", kind) for each in containers for kind in ("requests", "limits")]
    found = {name: text for name, text in _RESOURCES.items() if any(name in each for each in lists)}
    return {"resources": {"requests": found, "limits": dict(found)}} if found else {}
