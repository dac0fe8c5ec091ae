"""Unpacks layers: regular files and folders, below one folder, and nothing else."""

import gzip
import hashlib
import importlib
import os
import shutil
import tarfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from modelplane.hydrate.errors import SourceInvalidError
from modelplane.hydrate.paths import safe_path
from modelplane.hydrate.staged import FileRecord

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_BLOCK_BYTES = 1 << 20
_ZSTD_MODULES = ("compression.zstd", "backports.zstd")
_MOST_MEMBERS = 200_000


class Unpacker:
    """Layers in order, later ones over earlier ones. Gives the record of each file that is left."""

    def __init__(self, folder: Path, sub_path: str, check: Callable[[], None]) -> None:
        self._folder = folder
        self._sub_path = f"{safe_path(sub_path.strip('/'))}/" if sub_path.strip("/") else ""
        self._check = check
        self.records: dict[str, FileRecord] = {}
        self._of_this_layer: set[str] = set()

    def unpack(self, archive: Path, compression: str) -> None:
        self._of_this_layer = set()
        try:
            with opened(archive, compression) as stream, tarfile.open(fileobj=stream, mode="r|") as members:
                for count, member in enumerate(members):
                    if count >= _MOST_MEMBERS:
                        raise SourceInvalidError(f"a layer has more than {_MOST_MEMBERS} files")
                    self._member(members, member)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, UnicodeError, ValueError) as error:
            raise SourceInvalidError(f"a layer cannot be unpacked: {error}") from None

    def _member(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = member.name.removeprefix("./").strip("/")
        if name in {"", "."}:
            return
        path = safe_path(name)
        folder, _, last = path.rpartition("/")
        if last.startswith(_WHITEOUT):
            self._hide(folder if last == _OPAQUE else f"{folder}/{last.removeprefix(_WHITEOUT)}".lstrip("/"))
            return
        if not f"{path}/".startswith(self._sub_path):
            return
        path = path.removeprefix(self._sub_path)
        if member.isdir():
            return
        if member.isreg() and not member.issparse():
            self._write(members, member, path)
        else:
            raise SourceInvalidError(f"{name} in a layer is not a regular file")

    def _write(self, members: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        content = members.extractfile(member)
        if content is None or not path:
            raise SourceInvalidError(f"{member.name} in a layer cannot be read")
        for folder in [path.rsplit("/", count)[0] for count in range(1, path.count("/") + 1)]:
            if folder in self.records:
                raise SourceInvalidError(f"{folder} is a file and a folder in the layers")
        self._remove(path)
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self.records[path] = self._copy(content, target, member)
        self._of_this_layer.add(path)

    def _copy(self, content: IO[bytes], target: Path, member: tarfile.TarInfo) -> FileRecord:
        digest = hashlib.sha256()
        with target.open("xb") as file:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
                file.write(block)
                self._check()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if size != member.size:
            raise SourceInvalidError(f"{member.name} in a layer is cut off")
        return FileRecord(digest.hexdigest(), size)

    def _hide(self, path: str) -> None:
        """What a layer says is gone: a part of what is wanted, or a folder that all of it is in.

        It speaks of the layers below: what it holds itself stays, before and after these words.
        """
        if not path or self._sub_path.startswith(f"{path}/"):
            self._remove("", self._of_this_layer)
        elif path.startswith(self._sub_path):
            self._remove(path.removeprefix(self._sub_path), self._of_this_layer)

    def _remove(self, path: str, kept: Collection[str] = ()) -> None:
        """Removes a file, or a folder with what is in it."""
        there = [name for name in self.records if name == path or name.startswith(f"{path}/") or not path]
        gone = [name for name in there if name not in kept]
        for name in gone:
            (self._folder / name).unlink()
            del self.records[name]
        target = self._folder / path
        if path and len(gone) == len(there) and target.is_dir():
            shutil.rmtree(target)


@contextmanager
def opened(archive: Path, compression: str) -> Iterator[IO[bytes]]:
    if compression == "gzip":
        with gzip.open(archive, "rb") as stream:
            yield stream  # type: ignore[misc]  # a GzipFile reads bytes
    elif compression == "zstd":
        with _zstd().open(archive, "rb") as stream:
            yield stream
    else:
        with archive.open("rb") as stream:
            yield stream


def _zstd() -> Any:  # noqa: ANN401  a module of Python 3.14, or its backport
    for name in _ZSTD_MODULES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SourceInvalidError("a layer is compressed with zstd, which needs Python 3.14 or the package backports.zstd")
