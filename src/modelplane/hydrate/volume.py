"""The volume: where files are staged, how they become visible at once, and the marker that says so.

.modelplane/complete.json       what is complete and current: the marker
.modelplane/revisions/KEY.json  the same for each revision that is kept
.modelplane/staging/            files on their way
.modelplane/lock                held by the one loader that writes
revisions/KEY/                  files of a revision, in the plain layout
hub/models--ORG--NAME/          blobs, snapshots and refs, in the Hugging Face layout
current                         a link to the files of the marker's revision
NAME                            for each name in `current`, a link to it
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from modelplane.hydrate.answers import UNREADABLE, FileSize
from modelplane.hydrate.errors import HydrateError, OutOfSpaceError
from modelplane.hydrate.paths import LOST_AND_FOUND, RESERVED
from modelplane.hydrate.settings import Stop

MARKER = ".modelplane/complete.json"
_RESERVE_BYTES = 16 << 20
"""What stays free: states, records and links."""
_LOCK_POLL_S = 1.0


Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class CompleteFile(msgspec.Struct, frozen=True):
    path: str
    size: FileSize
    sha256: Sha256
    blob: str | None = None


class CompleteMarker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a volume holds. It is written last."""

    key: str
    revision: str
    layout: str
    root: str
    """The folder of the files, relative to the volume."""
    bytes: FileSize
    files: tuple[CompleteFile, ...]
    completed_at: str
    repo: str | None = None
    ref: str | None = None
    cache_key: str | None = None
    """The key of the ModelCache's source that the volume was staged for. Earlier loaders wrote none."""
    version: int = 1


class CacheVolume:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.own = root / ".modelplane"
        self.staging = self.own / "staging"
        self.records = self.own / "revisions"

    def prepare(self) -> None:
        for folder in (self.root, self.own, self.staging, self.records):
            folder.mkdir(exist_ok=True, parents=folder == self.root)

    @contextmanager
    def locked(self, stop: Stop) -> Iterator[None]:
        """One loader writes. The lock is the kernel's, so a killed loader has let it go."""
        descriptor = os.open(self.own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, stop)
            yield
        finally:
            os.close(descriptor)

    def marker(self, key: str | None = None) -> CompleteMarker | None:
        """The marker of the current revision, or of the one with this key."""
        return read_marker(self.root / MARKER if key is None else self.records / f"{key}.json")

    def markers(self) -> list[CompleteMarker]:
        """Every revision that is on the volume, whole; the one that was current last comes first."""
        records = sorted(self.records.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        found = (read_marker(path) for path in records)
        return [marker for marker in found if marker is not None and self.holds(marker)]

    def holds(self, marker: CompleteMarker) -> bool:
        """The files of a marker are there with their sizes."""
        return self.first_missing(marker) is None

    def first_missing(self, marker: CompleteMarker) -> CompleteFile | None:
        """A file of a marker that is not there, or has another size."""
        root = self.root / marker.root
        return next((file for file in marker.files if _size(root / file.path) != file.size), None)

    def check_space(self, needed: int) -> None:
        found = os.statvfs(self.root)
        free = found.f_bavail * found.f_frsize - _RESERVE_BYTES
        if needed > free:
            raise OutOfSpaceError(f"the artifact needs {needed} more bytes, and the volume has {max(0, free)} free")

    def publish(self, marker: CompleteMarker) -> None:
        """Makes a revision current. Its files are in place and durable; the marker is the last to be written."""
        write_durably(self.records / f"{marker.key}.json", msgspec.json.encode(marker))
        with suppress(OSError):  # a filesystem without links: the marker names the folder
            self._switch(marker)
        write_durably(self.root / MARKER, msgspec.json.encode(marker))

    def clear_staging(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)

    def remove_revision(self, marker: CompleteMarker, kept: Sequence[CompleteMarker]) -> None:
        """Removes a revision, the record first, except what revisions that are kept have too."""
        (self.records / f"{marker.key}.json").unlink(missing_ok=True)
        if any(other.root == marker.root for other in kept):
            return
        shutil.rmtree(self.root / marker.root, ignore_errors=True)
        shared = {file.blob for other in kept if other.repo == marker.repo for file in other.files}
        for file in marker.files:
            if file.blob is not None and file.blob not in shared:
                (self.root / marker.root).parent.with_name("blobs").joinpath(file.blob).unlink(missing_ok=True)

    def _switch(self, marker: CompleteMarker) -> None:
        names = {file.path.partition("/")[0] for file in marker.files} - RESERVED - {LOST_AND_FOUND}
        for name in names:
            link = self.root / name
            if not link.is_symlink() and not link.exists():
                link.symlink_to(f"current/{name}")
        _replace_link(self.root / "current", marker.root)
        for path in self.root.iterdir():
            if path.is_symlink() and path.name not in names and str(path.readlink()) == f"current/{path.name}":
                path.unlink()


def read_marker(path: Path) -> CompleteMarker | None:
    """A marker that this version reads; None if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CompleteMarker)
    except (OSError, *UNREADABLE):
        return None


def write_durably(path: Path, content: bytes) -> None:
    """The file is there as a whole or not at all, after a crash of the machine too."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_link(link: Path, target: str) -> None:
    beside = link.with_name(f".{link.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(link)


def _lock(descriptor: int, stop: Stop) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stop.wait(_LOCK_POLL_S)
        except OSError as error:
            raise HydrateError(f"the volume cannot be locked: {error.strerror}") from error
        else:
            return


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
