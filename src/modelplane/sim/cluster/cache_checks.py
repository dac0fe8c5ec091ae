"""The init container that looks at the volumes of caches, as `modelplane hydrate check` does on a node."""

from collections.abc import Iterator

from modelplane.api.labels import CACHE_CHECK_CONTAINER
from modelplane.api.objects import Manifest, items_at, namespace_of, text_at, value_at
from modelplane.hydrate import incomplete
from modelplane.sim.cluster.volume_folders import VolumeFolders


def cache_fault(pod: Manifest, folders: VolumeFolders) -> str | None:
    """The last line of the check; None where it passes, where the pod has none, and where nothing is stored."""
    containers = items_at(pod, "spec", "initContainers")
    check = next((entry for entry in containers if entry.get("name") == CACHE_CHECK_CONTAINER), None)
    if check is None or not folders.are_kept:
        return None
    mounts = {text_at(mount, "mountPath"): text_at(mount, "name") for mount in items_at(check, "volumeMounts")}
    for key, path in _staged(check):
        folder = folders.folder(namespace_of(pod), _claim(pod, mounts.get(path, "")))
        fault = incomplete(folder, key) if folder is not None else "the volume is not mounted"
        if fault is not None:
            return f"{path}: {fault}"
    return None


def _staged(check: Manifest) -> Iterator[tuple[str, str]]:
    """Key and path of each volume that the check is told of."""
    words = value_at(check, "args")
    for word in words if isinstance(words, list | tuple) else ():
        option, _, staged = str(word).partition("=")
        key, _, path = staged.partition("=")
        if option == "--staged":
            yield key, path


def _claim(pod: Manifest, volume: str) -> str:
    volumes = (entry for entry in items_at(pod, "spec", "volumes") if entry.get("name") == volume)
    return next((text_at(entry, "persistentVolumeClaim", "claimName") for entry in volumes), "")
