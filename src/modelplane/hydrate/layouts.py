"""How the files of an artifact lie on the volume: a plain tree, or the cache of the Hugging Face hub.

A tree is built in the staging folder and renamed as a whole. In the Hugging Face layout, blobs have names by content
and come first, then the snapshot as a whole, then the ref: a reader of the cache never finds half a snapshot.
"""

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from modelplane.api.reasons import Reason
from modelplane.hydrate.archives import Unpacker
from modelplane.hydrate.artifact import ArtifactFile, ResolvedArtifact
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.paths import check_distinct
from modelplane.hydrate.progress import Now
from modelplane.hydrate.staged import FileRecord
from modelplane.hydrate.volume import CacheVolume, CompleteFile, CompleteMarker, sync_folder, write_durably

HUGGING_FACE = "huggingface"
PLAIN = "plain"
_WITHOUT_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
_RENAMED_OVER = (errno.EEXIST, errno.ENOTEMPTY)

Records = Mapping[str, FileRecord]


def layout_of(artifact: ResolvedArtifact, wanted: str | None) -> str:
    """The Hugging Face layout needs a repository; other sources lie plain."""
    return HUGGING_FACE if artifact.repo is not None and wanted != PLAIN else PLAIN


def fits_layout(marker: CompleteMarker, wanted: str | None) -> bool:
    """Whether a revision lies as it is wanted now."""
    return wanted in {None, marker.layout} or marker.repo is None


def lay_out(
    volume: CacheVolume, artifact: ResolvedArtifact, records: Records, layout: str, check: Callable[[], None]
) -> CompleteMarker:
    """Moves staged files to where they are read from, and describes them. `check` raises when it is time to stop."""
    unpacked = _unpacked(volume, artifact, check) if artifact.layers else {}
    check_distinct([*unpacked, *(file.path for file in artifact.loose_files)])
    root = _hub_tree(volume, artifact) if layout == HUGGING_FACE else _plain_tree(volume, artifact)
    loose = [
        CompleteFile(file.path, records[file.content_id].size, records[file.content_id].sha256, file.blob)
        for file in artifact.loose_files
    ]
    files = (*(CompleteFile(path, each.size, each.sha256) for path, each in sorted(unpacked.items())), *loose)
    return CompleteMarker(
        key=artifact.key,
        revision=artifact.revision,
        layout=layout,
        root=root,
        bytes=sum(file.size for file in files),
        files=files,
        completed_at=Now().timestamp(),
        repo=artifact.repo,
        ref=artifact.ref,
    )


def repository_folder(repo: str) -> str:
    return f"hub/models--{repo.replace('/', '--')}"


def _tree(volume: CacheVolume, artifact: ResolvedArtifact) -> Path:
    return volume.staging / f"tree-{artifact.key}"


def _unpacked(volume: CacheVolume, artifact: ResolvedArtifact, check: Callable[[], None]) -> Records:
    """The files of the archives, unpacked into the tree from nothing: what an interrupted run left is not trusted."""
    tree = _tree(volume, artifact)
    shutil.rmtree(tree, ignore_errors=True)
    unpacker = Unpacker(tree, artifact.sub_path, check)
    for layer in artifact.layers:
        unpacker.unpack(volume.staging / f"{layer.file.content_id}.data", layer.compression)
    if not unpacker.records and not artifact.loose_files:
        where = f" in {artifact.sub_path}" if artifact.sub_path else ""
        raise HydrateError(f"the layers have no files{where}", Reason.SOURCE_NOT_FOUND)
    return unpacker.records


def _plain_tree(volume: CacheVolume, artifact: ResolvedArtifact) -> str:
    root = f"revisions/{artifact.key}"
    tree = _tree(volume, artifact)
    for file in artifact.loose_files:
        _place(volume.staging / f"{file.content_id}.data", tree / file.path)
    _rename_tree(tree, volume.root / root)
    return root


def _hub_tree(volume: CacheVolume, artifact: ResolvedArtifact) -> str:
    repository = volume.root / repository_folder(artifact.repo or "")
    for folder in ("blobs", "refs", "snapshots"):
        (repository / folder).mkdir(parents=True, exist_ok=True)
    tree = _tree(volume, artifact)
    for file in artifact.files:
        _place_blob(volume, repository, file, tree)
    sync_folder(repository / "blobs")
    snapshot = repository / "snapshots" / artifact.revision
    _rename_tree(tree, snapshot)
    if artifact.ref is not None:
        ref = repository / "refs" / artifact.ref
        ref.parent.mkdir(parents=True, exist_ok=True)
        write_durably(ref, artifact.revision.encode())
    return snapshot.relative_to(volume.root).as_posix()


def _place_blob(volume: CacheVolume, repository: Path, file: ArtifactFile, tree: Path) -> None:
    blob = repository / "blobs" / (file.blob or file.content_id)
    link = tree / file.path
    link.parent.mkdir(parents=True, exist_ok=True)
    staged = volume.staging / f"{file.content_id}.data"
    if staged.exists():
        _place(staged, blob)
    if not link.is_symlink() and not link.exists():
        up = "../" * (file.path.count("/") + 2)
        try:
            link.symlink_to(f"{up}blobs/{blob.name}")
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            blob.rename(link)  # as huggingface_hub does on a filesystem without links


def _place(staged: Path, target: Path) -> None:
    """Puts a whole file in place. A file that is there already has the same content."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(staged)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        beside = target.with_name(f".{target.name}.new")
        shutil.copyfile(staged, beside)
        beside.rename(target)


def _rename_tree(tree: Path, target: Path) -> None:
    """Makes a tree visible as a whole. One that is there gets the files that it lacks."""
    for folder, _, _ in os.walk(tree):
        sync_folder(Path(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        tree.rename(target)
    except OSError as error:
        if error.errno not in _RENAMED_OVER:
            raise
        _merge(tree, target)
    sync_folder(target.parent)


def _merge(tree: Path, target: Path) -> None:
    for folder, _, names in os.walk(tree):
        into = target / Path(folder).relative_to(tree)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            Path(folder, name).replace(into / name)
        sync_folder(into)
