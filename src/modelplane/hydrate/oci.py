"""Artifacts of an OCI registry: images, whose layers are unpacked, and artifacts, whose layers are files.

ModelPack names the file of a layer in `org.cncf.model.filepath`, oras in `org.opencontainers.image.title`. A layer with
a media type of an archive is unpacked. Blobs are checked by their digests, and so is the manifest.
"""

import hashlib
import platform
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import decode_answer
from modelplane.hydrate.artifact import ArtifactFile, FileStream, Layer, ResolvedArtifact, content_key
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, SourceInvalidError
from modelplane.hydrate.paths import safe_path
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.registry_auth import RegistryAuth
from modelplane.hydrate.sources import OciSource
from modelplane.hydrate.transport import StatusError, WebClient, WebResponse

_REFERENCE = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[A-Za-z0-9.-]+(?::\d+)?)/(?P<repository>[a-z0-9._/-]+)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_TITLES = ("org.cncf.model.filepath", "org.cnai.model.filepath", "org.opencontainers.image.title")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST_BYTES = 4 << 20
_UNAUTHORIZED = 401
_SAYS = {
    401: "the pull secret is missing or wrong",
    403: "the pull secret may not read it",
    404: "the repository, tag or digest does not exist",
}


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] | None = None
    platform: dict[str, Any] | None = None


class ImageManifest(msgspec.Struct, frozen=True, rename="camel"):
    layers: tuple[Descriptor, ...] = ()
    manifests: tuple[Descriptor, ...] = ()


class OciOrigin:
    def __init__(self, source: OciSource, client: WebClient, secret: MountedSecret) -> None:
        found = _REFERENCE.fullmatch(source.reference)
        if found is None:
            message = f"--source: oci: {source.reference!r} is not a registry, a repository and a tag or digest"
            raise HydrateError(message, Reason.INVALID)
        host = "registry-1.docker.io" if found["host"] == "docker.io" else found["host"]
        self._place = source.reference
        self._wanted = found["digest"] or found["tag"] or "latest"
        self._base = f"{found['scheme'] or 'https'}://{host}/v2/{found['repository']}"
        self._platform = source.platform or f"linux/{_MACHINES.get(platform.machine(), platform.machine())}"
        self._sub_path = source.sub_path.strip("/")
        self._client = client
        self._auth = RegistryAuth(client, found["repository"], secret.registry_login(host))
        self._reader = RangeReader(client, lambda _: self._auth.headers())

    def resolve(self) -> ResolvedArtifact:
        manifest, digest = self._manifest(self._wanted)
        if manifest.manifests:
            manifest, digest = self._manifest(self._chosen(manifest.manifests).digest)
        if not manifest.layers:
            raise HydrateError(f"{self._place} has no layers", Reason.SOURCE_NOT_FOUND)
        ranged = self._has_ranges(max(manifest.layers, key=lambda layer: layer.size))
        files, layers = [], []
        for descriptor in manifest.layers:
            file = self._file(descriptor, ranged=ranged)
            kind = compression_of(descriptor.media_type)
            if kind is not None:
                layers.append(Layer(file, kind))
            files.append(file)
        identity = {"oci": digest, "subPath": self._sub_path}
        return ResolvedArtifact(
            content_key(identity, digest), digest, tuple(files), layers=tuple(layers), sub_path=self._sub_path
        )

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        try:
            return self._reader.open(file, start, stop)
        except StatusError as error:
            if error.status != _UNAUTHORIZED or not self._auth.renew(error):
                raise
        return self._reader.open(file, start, stop)

    def abort(self) -> None:
        self._client.abort()

    def _manifest(self, reference: str) -> tuple[ImageManifest, str]:
        content = self._get(f"{self._base}/manifests/{reference}", {"Accept": ", ".join([*_MANIFESTS, *_INDEXES])})
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if reference.startswith("sha256:") and digest != reference:
            message = f"{self._place}: the manifest has the digest {digest}, and {reference} was asked for"
            raise HydrateError(message, Reason.DIGEST_MISMATCH)
        return decode_answer(content, ImageManifest, f"{self._place}: the manifest cannot be read"), digest

    def _chosen(self, manifests: tuple[Descriptor, ...]) -> Descriptor:
        for each in manifests:
            described = each.platform or {}
            if f"{described.get('os')}/{described.get('architecture')}" == self._platform:
                return _checked(each)
        if len(manifests) == 1:
            return _checked(manifests[0])
        raise HydrateError(f"{self._place} has no manifest for {self._platform}", Reason.SOURCE_NOT_FOUND)

    def _file(self, layer: Descriptor, *, ranged: bool) -> ArtifactFile:
        digest = _checked(layer).digest
        named = layer.annotations or {}
        title = next((named[name] for name in _TITLES if name in named), None)
        return ArtifactFile(
            safe_path(title if title is not None else digest.replace(":", "-")),
            layer.size,
            url=f"{self._base}/blobs/{digest}",
            digest=digest,
            ranged=ranged,
        )

    def _has_ranges(self, layer: Descriptor) -> bool:
        url = f"{self._base}/blobs/{_checked(layer).digest}"
        response = self._get_authorized(url, {"Range": "bytes=0-0"})
        response.close()
        return response.status == 206  # noqa: PLR2004  Partial Content

    def _get(self, url: str, headers: Mapping[str, str]) -> bytes:
        return self._get_authorized(url, headers).small(_MANIFEST_BYTES)

    def _get_authorized(self, url: str, headers: Mapping[str, str]) -> WebResponse:
        try:
            try:
                return self._client.get(url, {**headers, **self._auth.headers()})
            except StatusError as error:
                if error.status != _UNAUTHORIZED or not self._auth.renew(error):
                    raise
            return self._client.get(url, {**headers, **self._auth.headers()})
        except StatusError as error:
            raise HydrateError(f"{self._place}: {_SAYS.get(error.status, error)}", error.reason) from error


def compression_of(media_type: str) -> str | None:
    """How the archive of a layer is compressed; None for a layer that is a file."""
    if not re.search(r"[.+]tar\b|\.diff\.tar|rootfs", media_type):
        return None
    if media_type.endswith("gzip"):
        return "gzip"
    return "zstd" if media_type.endswith("zstd") else ""


def _checked(descriptor: Descriptor) -> Descriptor:
    if not _DIGEST.fullmatch(descriptor.digest) or descriptor.size < 0:
        raise SourceInvalidError(
            f"{descriptor.digest!r} of {descriptor.size} bytes is not a blob with a SHA-256 digest"
        )
    return descriptor
