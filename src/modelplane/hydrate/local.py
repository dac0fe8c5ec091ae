"""Files that are at hand: a folder, a mounted ConfigMap, or texts in the source itself."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from modelplane.api.reasons import Reason
from modelplane.hydrate.artifact import ArtifactFile, ResolvedArtifact, content_key
from modelplane.hydrate.errors import HydrateError, SourceChangedError, SourceInvalidError
from modelplane.hydrate.paths import LOST_AND_FOUND, check_distinct, safe_path
from modelplane.hydrate.sources import ConfigMapSource, InlineSource


class FolderOrigin:
    """A folder with files. Symbolic links are refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self) -> ResolvedArtifact:
        if not self._folder.is_dir():
            raise HydrateError(f"{self._folder} is not a folder", Reason.SOURCE_NOT_FOUND)
        files = tuple(sorted(self._files(), key=lambda file: file.path))
        if not files:
            raise HydrateError(f"{self._folder} has no files", Reason.SOURCE_NOT_FOUND)
        listing = [(file.path, file.size, file.version) for file in files]
        revision = hashlib.sha256(repr(listing).encode()).hexdigest()
        return ResolvedArtifact(content_key({"file": str(self._folder)}, revision), revision, files)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> "LocalStream":
        path = self._folder / file.path
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        if _version(os.fstat(descriptor)) != file.version:
            os.close(descriptor)
            raise SourceChangedError(f"{path} changed while it was read")
        return LocalStream(descriptor, start, stop)

    def abort(self) -> None:
        """Reads of files end by themselves."""

    def _files(self) -> Iterator[ArtifactFile]:
        for path in self._regular_files():
            found = path.stat()
            name = safe_path(path.relative_to(self._folder).as_posix())
            yield ArtifactFile(name, found.st_size, url=path.as_uri(), version=_version(found))

    def _regular_files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if name != LOST_AND_FOUND]
            linked = [name for name in folders if Path(folder, name).is_symlink()]
            for name in (*linked, *names):
                path = Path(folder, name)
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise SourceInvalidError(f"{path} is not a regular file")
                yield path


class TextOrigin:
    """Small files that the source spells out."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def resolve(self) -> ResolvedArtifact:
        if not self._files:
            raise HydrateError("the source has no files", Reason.SOURCE_NOT_FOUND)
        check_distinct(self._files)
        files = tuple(
            ArtifactFile(safe_path(path), len(content), digest=f"sha256:{hashlib.sha256(content).hexdigest()}")
            for path, content in sorted(self._files.items())
        )
        revision = hashlib.sha256(repr([(file.path, file.digest) for file in files]).encode()).hexdigest()
        return ResolvedArtifact(content_key({"inline": True}, revision), revision, files)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> "TextStream":
        return TextStream(self._files[file.path][start:stop])

    def abort(self) -> None:
        """Texts are read at once."""


class LocalStream:
    def __init__(self, descriptor: int, start: int, stop: int | None) -> None:
        self._descriptor = descriptor
        self._at = start
        self._stop = stop

    def readinto(self, buffer: memoryview) -> int:
        left = len(buffer) if self._stop is None else min(len(buffer), self._stop - self._at)
        count = os.preadv(self._descriptor, [buffer[:left]], self._at)
        self._at += count
        return count

    def close(self) -> None:
        os.close(self._descriptor)


class TextStream:
    def __init__(self, content: bytes) -> None:
        self._left = content

    def readinto(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Nothing is open."""


def inline_files(source: InlineSource) -> dict[str, bytes]:
    named = {source.filename: source.content} if source.filename is not None else {}
    return {name: text.encode() for name, text in {**source.files, **named}.items()}


def config_map_files(source: ConfigMapSource, mounted: Path | None) -> dict[str, bytes]:
    """The keys of a ConfigMap as files, or the one that was asked for."""
    files = {name: text.encode() for name, text in (source.data or {}).items()}
    files.update(source.binary_data or {})
    if not files and mounted is not None:
        files = _mounted_files(mounted)
    if source.key is None:
        return files
    if source.key not in files:
        raise HydrateError(f"the ConfigMap {source.name} has no key {source.key}", Reason.CONFIG_MAP_MISSING)
    return {source.key: files[source.key]}


def _mounted_files(folder: Path) -> dict[str, bytes]:
    """The kubelet mounts keys as links into a folder whose name starts with two dots."""
    keys = (path for path in sorted(folder.iterdir()) if not path.name.startswith("..") and path.is_file())
    return {path.name: path.read_bytes() for path in keys}


def _version(found: os.stat_result) -> str:
    return f"{found.st_size}.{found.st_mtime_ns}"
