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

ANNOTATION = "io.crossplane.xpkg"


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

    def config(self) -> bytes:
        ran = {"Labels": dict(self.labels)}
        if self.entrypoint:
            ran["Entrypoint"] = list(self.entrypoint)  # type: ignore[assignment]  # a JSON object of several types
        if self.user:
            ran["User"] = self.user  # type: ignore[assignment]  # as above
        if self.environment:
            ran["Env"] = [f"{name}={text}" for name, text in sorted(self.environment.items())]  # type: ignore[assignment]
        document = {
            "architecture": "amd64",
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
