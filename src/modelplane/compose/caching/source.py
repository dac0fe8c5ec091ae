"""Where an artifact comes from, in one form for every way of writing it, and the key that names it.

The key is a hash of the source as it is written, without credentials and sizes: other credentials for the same files
are no other source. Volumes are named after it, so a source that is edited is staged beside what was staged before.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.codec import encode
from modelplane.api.models import ModelCache, ModelCacheSpec
from modelplane.api.objects import Json, as_mapping, items_at, text_at

_KEY_LENGTH = 16
PEER = "peer"
"""The block by which the loader copies the volume of another cluster."""
_HOST = re.compile(r"(?:https?:)?//(\[[^\]]*\]|[^/:?#]+)")
_BLOCKS: Mapping[str, str] = {
    "huggingFace": "HuggingFace",
    "s3": "S3",
    "gcs": "GCS",
    "http": "HTTP",
    "oci": "OCI",
    "configMap": "ConfigMap",
    "inline": "Inline",
}
"""Source blocks, and the value of spec.source that each belongs to."""
_SECRETS = {
    "huggingFace": ("authSecret", "HF_TOKEN"),
    "s3": ("secretRef", ""),
    "gcs": ("secretRef", ""),
    "http": ("authSecretRef", "Authorization"),
    "oci": ("pullSecretRef", ""),
}
"""The field of each block that names a Secret, and the key that is read where it names none."""
_UNTOLD = frozenset({"sizeGiB", "artifact", *(field for field, _ in _SECRETS.values())})
"""Fields of a block that are for the volume or the Job, and no part of the source."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """A Secret of the team's namespace, and the key that is needed; empty: all keys are."""

    name: str
    key: str
    field: str
    """The field of the source that names it."""


@dataclass(frozen=True, slots=True)
class CacheSource:
    block: str
    """The name of its block."""
    document: Json
    """The block as the loader is told it."""
    key: str
    secret: SecretSource | None = None
    config_map: str | None = None

    @property
    def kind(self) -> str:
        return _BLOCKS[self.block]

    @property
    def shown(self) -> str:
        """The source for people, such as `HuggingFace Qwen/Qwen3-8B`."""
        names = ("repo", "uri", "bucket", "url", "reference", "name", "filename")
        found = next((text_at(self.document, name) for name in names if text_at(self.document, name)), "")
        return f"{self.kind} {found}".strip()[:256]

    @property
    def hosts(self) -> tuple[tuple[str, str], ...]:
        """Hosts that a user named, each with its field."""
        return tuple((path, found[1]) for path, url in self._urls() if (found := _HOST.match(url)) is not None)

    def _urls(self) -> Iterator[tuple[str, str]]:
        place = "relay" if self.block == PEER else self.block
        for field in ("endpoint", "url"):
            if url := text_at(self.document, field):
                yield f"spec.{place}.{field}", url
        for index, entry in enumerate(items_at(self.document, "urls")):
            yield f"spec.{self.block}.urls[{index}].url", text_at(entry, "url")
        reference = text_at(self.document, "reference").removeprefix("http://").removeprefix("https://")
        registry, slash, _ = reference.partition("/")
        # A first part without a dot or a port is a folder of Docker's own registry.
        if slash and ("." in registry or ":" in registry or registry == "localhost"):
            yield f"spec.{self.block}.reference", f"//{registry}"


def source_of(cache: ModelCache) -> CacheSource | None:
    """None where there is none: nothing is fetched onto a claim that exists."""
    found = next(_written(cache.spec), None)
    if found is None:
        return None
    block, written = found
    field, key = _SECRETS.get(block, ("", ""))
    reference = as_mapping(written.get(field))
    secret = SecretSource(text_at(reference, "name"), text_at(reference, "key") or key, field) if reference else None
    document = {name: value for name, value in written.items() if name not in _UNTOLD}
    config_map = text_at(document, "name") if block == "configMap" else None
    return CacheSource(block, document, _key(block, document), secret, config_map)


def relayed_source(spec: ModelCacheSpec, source: CacheSource, url: str | None) -> CacheSource:
    """What a loader fetches from: the source, or the cluster that relays it at a URL. The key is the source's."""
    relay = spec.relay
    if relay is None or url is None:
        return source
    secret = SecretSource(relay.auth_secret_ref.name, relay.auth_secret_ref.key, "authSecretRef")
    return CacheSource(PEER, {"url": url}, source.key, secret)


def older_forms(spec: ModelCacheSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Fields in a form that is still read, each with the newer one."""
    if spec.artifact.source is not None:
        block = next((name for name in _BLOCKS if name in encode(spec.artifact.source)), "")
        newer = f"spec.source: {_BLOCKS.get(block, '')} and spec.{block}"
        hub = spec.artifact.source.hugging_face
        newer += ", with tokenSecretRef as authSecret" if hub and hub.token_secret_ref else ""
        yield ("spec", "artifact", "source"), newer
    if spec.storage.backend is not None:
        yield ("spec", "storage", "backend"), f"spec.storage.type: {spec.storage.backend}"
    if spec.storage.pvc is not None:
        fields = ", ".join(f"spec.storage.{name}" for name in encode(spec.storage.pvc))
        yield ("spec", "storage", "pvc"), fields or "spec.storage.sizeGiB"


def _written(spec: ModelCacheSpec) -> Iterator[tuple[str, Json]]:
    """The block with its name, the newer form first."""
    for holder in (spec, spec.artifact.source):
        encoded = encode(holder) if isinstance(holder, msgspec.Struct) else {}
        for name in _BLOCKS:
            block = dict(as_mapping(encoded.get(name)))
            if block:
                if "tokenSecretRef" in block:
                    block["authSecret"] = block.pop("tokenSecretRef")
                yield name, block


def _key(block: str, document: Json) -> str:
    text = msgspec.json.encode({block: document}, order="sorted")
    return hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]
