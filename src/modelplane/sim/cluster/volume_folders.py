"""Volumes as folders: each PersistentVolume of a cluster is a folder of this machine, where it is told one."""

import shutil
from contextlib import suppress
from pathlib import Path

from modelplane.api.labels import CACHE
from modelplane.api.objects import Manifest, items_at, labels_of, name_of, namespace_of, text_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore

MARKER = Path(".modelplane", "complete.json")
"""The loader writes it last."""


class VolumeFolders:
    """`root` is None where nothing is stored."""

    def __init__(self, root: Path | None, cluster: str, store: ClusterStore) -> None:
        self._root = root / cluster if root is not None else None
        self._store = store

    @property
    def are_kept(self) -> bool:
        """Whether volumes are folders at all."""
        return self._root is not None

    def folder(self, namespace: str, claim: str) -> Path | None:
        """The folder of a claim that is bound."""
        found = self._claim(namespace, claim)
        name = text_at(found, "spec", "volumeName") if found is not None else ""
        return self._root / name if self._root is not None and name else None

    def remove(self, volume: str) -> None:
        if self._root is not None and volume:
            with suppress(OSError):
                shutil.rmtree(self._root / volume)

    def empty(self, namespace: str, cache: str) -> int:
        """Removes what is on the volumes of a cache. Returns how many there are."""
        claims = self._store.list("", "PersistentVolumeClaim", namespace=namespace, labels={CACHE: cache})
        folders = [folder for claim in claims if (folder := self.folder(namespace, name_of(claim))) is not None]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
        return len(folders)

    def unstaged(self, pod: Manifest) -> str | None:
        """The mount path of a cache that is not complete; None where there is none. Claims of others are not judged."""
        if self._root is None:
            return None
        for name, claim in _claims(pod):
            found = self._claim(namespace_of(pod), claim)
            if found is None or CACHE not in labels_of(found):
                continue
            folder = self.folder(namespace_of(pod), claim)
            if folder is None or not (folder / MARKER).is_file():
                return _mount_path(pod, name)
        return None

    def _claim(self, namespace: str, name: str) -> Manifest | None:
        return self._store.get(ObjectRef("", "PersistentVolumeClaim", namespace, name))


def _claims(pod: Manifest) -> list[tuple[str, str]]:
    """Each volume that is a claim, with the claim's name."""
    volumes = items_at(pod, "spec", "volumes")
    found = ((text_at(each, "name"), text_at(each, "persistentVolumeClaim", "claimName")) for each in volumes)
    return [(name, claim) for name, claim in found if claim]


def _mount_path(pod: Manifest, volume: str) -> str:
    for container in items_at(pod, "spec", "containers"):
        for mount in items_at(container, "volumeMounts"):
            if mount.get("name") == volume:
                return text_at(mount, "mountPath")
    return volume
