"""Container images without a daemon: layers from files, and the archive that `docker load` and registry tools read.

Everything is deterministic: equal content gives equal bytes, so a package that did not change keeps its digest.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ANNOTATION = "io.crossplane.xpkg"
INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@dataclass(frozen=True)
class Layer:
    packed: bytes
    unpacked_digest: str

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.packed).hexdigest()}"


@dataclass(frozen=True)
class Image:
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"

    def config(self) -> bytes:
        ran = {"Labels": dict(self.labels)}
        if self.entrypoint:
            ran["Entrypoint"] = list(self.entrypoint)  # type: ignore[assignment]  # a JSON object of several types
        if self.user:
            ran["User"] = self.user  # type: ignore[assignment]  # as above
        if self.environment:
            ran["Env"] = [f"{name}={text}" for name, text in sorted(self.environment.items())]  # type: ignore[assignment]
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "config": ran,
            "rootfs": {"type": "layers", "diff_ids": [layer.unpacked_digest for layer in self.layers]},
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def layer_of(files: Mapping[str, bytes]) -> Layer:
    """A layer of a few files, by path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return _layer(buffer.getvalue())


def layer_of_folder(folder: Path, prefix: str = "", skip: Iterable[str] = ("__pycache__",)) -> Layer:
    """A layer of a whole folder, owned by root, without times."""
    buffer = io.BytesIO()
    left_out = set(skip)
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if left_out & set(path.relative_to(folder).parts):
                continue
            entry = archive.gettarinfo(str(path), str(Path(prefix) / path.relative_to(folder)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if entry.isreg() else io.BytesIO() as content:
                archive.addfile(entry, content if entry.isreg() else None)
    return _layer(buffer.getvalue())


def _layer(content: bytes) -> Layer:
    return Layer(gzip.compress(content, 6, mtime=0), f"sha256:{hashlib.sha256(content).hexdigest()}")


def package_image(package: bytes, runtime: Image | None = None) -> Image:
    """A Crossplane package: a layer with package.yaml, marked as such, over the image that runs it where it has one."""
    base = layer_of({"package.yaml": package})
    runtime = runtime or Image(())
    return Image(
        layers=(base, *runtime.layers),
        entrypoint=runtime.entrypoint,
        user=runtime.user,
        environment=runtime.environment,
        labels={**runtime.labels, f"{ANNOTATION}:{base.digest}": "base"},
        architecture=runtime.architecture,
    )


def write_archive(image: Image, path: Path, name: str) -> str:
    """The archive of an image. Returns the digest of its configuration, which names the image."""
    config = image.config()
    digest = hashlib.sha256(config).hexdigest()
    layers = [f"{layer.digest.removeprefix('sha256:')}.tar.gz" for layer in image.layers]
    manifest = json.dumps([{"Config": f"sha256:{digest}", "RepoTags": [name], "Layers": layers}]).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for title, content in (
            (f"sha256:{digest}", config),
            *zip(layers, (layer.packed for layer in image.layers), strict=True),
            ("manifest.json", manifest),
        ):
            entry = tarfile.TarInfo(title)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return digest


@dataclass(frozen=True)
class StoredImage:
    """An image as a registry keeps it."""

    manifest: bytes
    blobs: tuple[bytes, ...]
    architecture: str
    media_type: str = _MANIFEST


def read_archive(path: Path) -> StoredImage:
    """An archive that `write_archive` wrote. It marks layers of a package in labels, a registry marks each itself."""
    with tarfile.open(path) as archive:
        files = {entry.name: _content(archive, entry) for entry in archive if entry.isfile()}
    (described,) = json.loads(files["manifest.json"])
    config = files[described["Config"]]
    facts = json.loads(config)
    labels = facts.get("config", {}).get("Labels") or {}
    layers = [files[name] for name in described["Layers"]]
    marks = [labels.get(f"{ANNOTATION}:{_digest(layer)}") for layer in layers]
    document = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _described(_CONFIG, config),
        "layers": [
            {**_described(_LAYER, layer), **({"annotations": {ANNOTATION: mark}} if mark else {})}
            for layer, mark in zip(layers, marks, strict=True)
        ],
    }
    return StoredImage(_packed(document), (config, *layers), facts["architecture"])


def stored_chart(path: Path) -> StoredImage:
    """A Helm chart, as Helm pushes one: its Chart.yaml is the configuration."""
    content = path.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        name = next(entry for entry in archive if entry.name.endswith("/Chart.yaml") and entry.name.count("/") == 1)
        config = _packed(yaml.safe_load(_content(archive, name)))
    document = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _described(_CHART_CONFIG, config),
        "layers": [_described(_CHART_LAYER, content)],
    }
    return StoredImage(_packed(document), (config, content), "any")


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file is not None else b""


def _described(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _packed(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
