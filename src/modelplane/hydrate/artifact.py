"""What a source resolves to: files with sizes and digests, and the key that names the content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

KEY_LENGTH = 32


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    path: str
    size: int | None
    """None where the server does not say; such a file is one part and starts anew when it is interrupted."""
    url: str = ""
    digest: str | None = None
    """What the content must have: `sha256:` and hex, or `git:` and the hex of a git blob."""
    etag: str | None = None
    blob: str | None = None
    """Its name among the blobs of a Hugging Face cache."""
    ranged: bool = True
    """Whether the server gives parts of it; if not, it is one part and one connection."""
    version: str | None = None
    """What else tells two contents behind one URL apart."""

    @property
    def content_id(self) -> str:
        """Equal for files with equal content, as far as the source says; partial files are kept under it."""
        known = self.digest or f"{self.url}|{self.path}|{self.etag}|{self.version}|{self.size}"
        return hashlib.sha256(known.encode()).hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True, slots=True)
class ResolvedArtifact:
    key: str
    revision: str
    """The commit, digest or listing that was resolved."""
    files: tuple[ArtifactFile, ...]
    repo: str | None = None
    """The repository of the Hugging Face hub that the files come from."""
    ref: str | None = None
    """The branch or tag that was asked for, where it is not the commit itself."""
    layers: tuple["Layer", ...] = ()
    """Archives to unpack, in order, each one of the files."""
    sub_path: str = ""
    """The folder inside the archives that is wanted; empty for all."""

    @property
    def loose_files(self) -> list[ArtifactFile]:
        """Files that stay as they are fetched."""
        archives = {layer.file.content_id for layer in self.layers}
        return [file for file in self.files if file.content_id not in archives]

    @property
    def total_bytes(self) -> int:
        return sum(file.size or 0 for file in {file.content_id: file for file in self.files}.values())


@dataclass(frozen=True, slots=True)
class Layer:
    file: ArtifactFile
    compression: str
    """Empty, `gzip` or `zstd`."""


class FileStream(Protocol):
    """Bytes of one file, from an offset on."""

    def readinto(self, buffer: memoryview) -> int:
        """Bytes read; 0 at the end."""

    def close(self) -> None: ...


class Origin(Protocol):
    """A source that can be read."""

    def resolve(self) -> ResolvedArtifact: ...

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        """The bytes from `start` to before `stop`. TryAgainError if it may work later."""

    def abort(self) -> None:
        """Ends reads under way, and closes connections."""


def content_key(identity: Mapping[str, object], revision: str) -> str:
    """The source and its resolved revision. It fits a label, a file name and a claim's name."""
    text = json.dumps({**identity, "revision": revision}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
