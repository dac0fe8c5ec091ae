"""An OCI registry on loopback, from which Crossplane's own package manager installs packages.

It holds packages in memory: those made of manifests here, those read from `.xpkg` files, and those that are pushed.
Crossplane falls back to plain HTTP for an address that is an IP, so no certificate is involved.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from typing import TYPE_CHECKING

import yaml
from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable
    from pathlib import Path

    from lab.client import Manifest

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_ANNOTATION = "io.crossplane.xpkg"
_CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFESTS = re.compile(r"/v2/(.+)/manifests/([^/]+)")
_BLOBS = re.compile(r"/v2/.+/blobs/([^/]+)")
_UPLOADS = re.compile(r"/v2/.+/blobs/uploads/([^/]*)")
_TAGS = re.compile(r"/v2/(.+)/tags/list")


class Registry:
    """Packages by repository and tag. `start` returns once it listens."""

    def __init__(self) -> None:
        """Empty."""
        self._blobs: dict[str, bytes] = {}
        self._manifests: dict[tuple[str, str], bytes] = {}
        self._tags: dict[str, list[str]] = {}
        self._files: dict[str, bytes] = {}
        self._runner: web.ServerRunner | None = None

    def add_manifests(self, repository: str, tag: str, manifests: Iterable[Manifest]) -> str:
        """A package that holds these manifests, metadata first; answers its digest."""
        stream = yaml.safe_dump_all(manifests, sort_keys=False).encode()
        plain = _tar({"package.yaml": stream})
        packed = gzip.compress(plain, mtime=0)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]},
        }
        return self._add_image(repository, tag, json.dumps(config).encode(), {_digest(packed): (packed, "base")})

    def add_file(self, repository: str, tag: str, path: Path) -> str:
        """An `.xpkg` file, laid out as an OCI image or as a container engine's archive."""
        with tarfile.open(path) as archive:
            files = {entry.name.removeprefix("./"): _content(archive, entry) for entry in archive if entry.isfile()}
        if "index.json" in files:
            return self._add_layout(repository, tag, files)
        (described,) = json.loads(files["manifest.json"])
        config = files[described["Config"]]
        labels = json.loads(config).get("config", {}).get("Labels") or {}
        marks = {label.removeprefix(f"{_ANNOTATION}:"): mark for label, mark in labels.items()}
        layers = {_digest(files[name]): files[name] for name in described["Layers"]}
        marked = {digest: (layer, marks.get(digest, "")) for digest, layer in layers.items()}
        return self._add_image(repository, tag, config, marked)

    def _add_image(self, repository: str, tag: str, config: bytes, layers: dict[str, tuple[bytes, str]]) -> str:
        """Packed layers by digest, each with what marks it as part of a package; an archive keeps those in labels."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, **self._describe(self._keep(config))},
            "layers": [
                {
                    "mediaType": _LAYER,
                    **self._describe(self._keep(layer)),
                    **({"annotations": {_ANNOTATION: mark}} if mark else {}),
                }
                for layer, mark in layers.values()
            ],
        }
        return self._publish(repository, tag, json.dumps(manifest).encode())

    def add_chart(self, repository: str, version: str, config: bytes, archive: bytes) -> str:
        """A packed chart of Helm, as `helm push` stores it."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CHART_CONFIG, **self._describe(self._keep(config))},
            "layers": [{"mediaType": _CHART, **self._describe(self._keep(archive))}],
        }
        return self._publish(repository, version, json.dumps(manifest).encode())

    def add_file_at(self, path: str, content: bytes) -> None:
        """A plain file: repositories of charts that are no registry have an index."""
        self._files[path] = content

    def _add_layout(self, repository: str, tag: str, files: dict[str, bytes]) -> str:
        index = json.loads(files["index.json"])
        for name, content in files.items():
            if name.startswith("blobs/"):
                self._keep(content)
        return self._publish(repository, tag, self._blobs[index["manifests"][0]["digest"]])

    def _keep(self, content: bytes) -> str:
        digest = _digest(content)
        self._blobs[digest] = content
        return digest

    def _describe(self, digest: str) -> dict[str, object]:
        return {"digest": digest, "size": len(self._blobs[digest])}

    def _publish(self, repository: str, tag: str, manifest: bytes) -> str:
        digest = _digest(manifest)
        self._manifests[repository, tag] = self._manifests[repository, digest] = manifest
        if tag != digest and tag not in self._tags.setdefault(repository, []):
            self._tags[repository].append(tag)
        return digest

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=tls).start()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        if self._runner is None:
            raise RuntimeError("the registry is not started")
        host, port = self._runner.addresses[0][:2]
        return str(host), int(port)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.method in {"POST", "PUT"}:
            return await self._take(request)
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405)
        found = self._find(request.path)
        if found is None:
            return web.Response(status=404)
        content, kind = found
        headers = {"Docker-Content-Digest": _digest(content), "Content-Type": kind}
        return web.Response(body=content, headers=headers)

    async def _take(self, request: web.BaseRequest) -> web.Response:
        """A blob in two calls, or a manifest. What does not have the digest that it is said to have is refused."""
        if request.method == "POST" and _UPLOADS.fullmatch(request.path):
            return web.Response(status=202, headers={"Location": f"{request.path}one"})
        content = await request.content.read()  # a layer is larger than what a server reads by default
        if _UPLOADS.fullmatch(request.path):
            if request.query.get("digest") != _digest(content):
                return web.Response(status=400, text="DIGEST_INVALID")
            return web.Response(status=201, headers={"Docker-Content-Digest": self._keep(content)})
        at = _MANIFESTS.fullmatch(request.path)
        if at is None:
            return web.Response(status=404)
        return web.Response(status=201, headers={"Docker-Content-Digest": self._publish(at[1], at[2], content)})

    def _find(self, path: str) -> tuple[bytes, str] | None:
        if path.rstrip("/") == "/v2":
            return b"{}", "application/json"
        if (file := self._files.get(path)) is not None:
            return file, "application/octet-stream"
        if (at := _MANIFESTS.fullmatch(path)) and (manifest := self._manifests.get((at[1], at[2]))):
            return manifest, json.loads(manifest).get("mediaType", _MANIFEST)
        if (at := _BLOBS.fullmatch(path)) and (blob := self._blobs.get(at[1])) is not None:
            return blob, "application/octet-stream"
        if (at := _TAGS.fullmatch(path)) and at[1] in self._tags:
            return json.dumps({"name": at[1], "tags": self._tags[at[1]]}).encode(), "application/json"
        return None


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file is not None else b""


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
