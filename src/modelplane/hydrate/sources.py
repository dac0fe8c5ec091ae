"""The source of an artifact as the loader is told it: the source block of a ModelCache, with the API's field names."""

from pathlib import Path
from typing import Any

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import UNREADABLE
from modelplane.hydrate.errors import HydrateError

DEFAULT_HUB = "https://huggingface.co"
DEFAULT_GCS = "https://storage.googleapis.com"


class SourceBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A block of a source. A field that nothing reads is refused, so that a misspelled one is not lost."""


class SecretKey(SourceBlock, frozen=True):
    """A Secret. The loader gets its content as files and only reads the key."""

    name: str = ""
    key: str | None = None


class HuggingFaceSource(SourceBlock, frozen=True):
    repo: str
    revision: str = "main"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    endpoint: str = DEFAULT_HUB
    auth_secret: SecretKey | None = None
    size_gi_b: int | None = msgspec.field(default=None, name="sizeGiB")


class BucketSource(SourceBlock, frozen=True):
    """An S3 bucket, or one of Google Cloud Storage through its S3 interface."""

    uri: str | None = None
    bucket: str | None = None
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    anonymous: bool = False
    secret_ref: SecretKey | None = None


class UrlEntry(SourceBlock, frozen=True):
    url: str
    digest: str | None = None
    sha256: str | None = None
    path: str | None = None


class HttpSource(SourceBlock, frozen=True):
    url: str | None = None
    digest: str | None = None
    sha256: str | None = None
    urls: tuple[UrlEntry | str, ...] = ()
    header: str = "Authorization"
    auth_secret_ref: SecretKey | None = None


class OciSource(SourceBlock, frozen=True):
    reference: str
    platform: str | None = None
    sub_path: str = ""
    pull_secret_ref: SecretKey | None = None


class ConfigMapSource(SourceBlock, frozen=True):
    """A ConfigMap: its data, or the folder that it is mounted at (`--files-dir`)."""

    name: str = ""
    key: str | None = None
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None


class InlineSource(SourceBlock, frozen=True):
    filename: str | None = None
    content: str = ""
    files: dict[str, str] = {}


class PeerSource(SourceBlock, frozen=True):
    """The same cache on another cluster, served by `modelplane hydrate serve`."""

    url: str
    key: str | None = None
    auth_secret_ref: SecretKey | None = None


class FolderSource(SourceBlock, frozen=True):
    """A folder of this machine."""

    path: str


Source = (
    HuggingFaceSource
    | BucketSource
    | HttpSource
    | OciSource
    | ConfigMapSource
    | InlineSource
    | PeerSource
    | FolderSource
)

_BLOCKS: dict[str, type[SourceBlock]] = {
    "huggingFace": HuggingFaceSource,
    "s3": BucketSource,
    "gcs": BucketSource,
    "http": HttpSource,
    "oci": OciSource,
    "configMap": ConfigMapSource,
    "inline": InlineSource,
    "peer": PeerSource,
    "file": FolderSource,
}
_WRAPPERS = ("spec", "artifact")


def read_source(text: str) -> Source:
    """The source of a JSON document, or of the file that follows an @. HydrateError names what is wrong."""
    try:
        raw = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
    except OSError as error:
        raise HydrateError(f"--source: {text[1:]} cannot be read: {error.strerror}", Reason.INVALID) from error
    try:
        if raw.startswith(b"file://"):
            return FolderSource(path=raw.decode().removeprefix("file://"))
        document = msgspec.json.decode(raw)
    except UNREADABLE as error:
        raise HydrateError(f"--source is not JSON: {error}", Reason.INVALID) from None
    return _source(document)


def _source(document: object) -> Source:
    blocks = _blocks(document)
    if len(blocks) != 1:
        found = ", ".join(blocks) or "none"
        message = f"--source needs exactly one of {', '.join(_BLOCKS)}; it has {found}"
        raise HydrateError(message, Reason.INVALID)
    name, block = next(iter(blocks.items()))
    try:
        source = msgspec.convert(block, _BLOCKS[name])
    except msgspec.ValidationError as error:
        raise HydrateError(f"--source: {name}: {error}", Reason.INVALID) from None
    return _as_gcs(source) if name == "gcs" and isinstance(source, BucketSource) else source  # type: ignore[return-value]  # the table holds members of the union only


def _blocks(document: object) -> dict[str, Any]:
    """The source blocks of a document: at its top, or where a ModelCache has them."""
    if not isinstance(document, dict):
        raise HydrateError("--source is not a JSON object", Reason.INVALID)
    for wrapper in _WRAPPERS:
        inner = document.get(wrapper)
        if isinstance(inner, dict) and not _BLOCKS.keys() & document.keys():
            return _blocks(inner)
    if isinstance(document.get("source"), dict):
        return _blocks(document["source"])
    return {name: document[name] for name in _BLOCKS if document.get(name) is not None}


def _as_gcs(source: BucketSource) -> BucketSource:
    uri = source.uri and "s3://" + source.uri.removeprefix("gs://").removeprefix("s3://")
    return msgspec.structs.replace(
        source, uri=uri, endpoint=source.endpoint or DEFAULT_GCS, region=source.region or "auto"
    )
