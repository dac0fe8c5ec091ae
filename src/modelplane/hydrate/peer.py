"""The same cache on another cluster: a model crosses an ocean once, and the copies come from the first."""

from urllib.parse import quote

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import decode_answer
from modelplane.hydrate.artifact import ArtifactFile, FileStream, ResolvedArtifact
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.paths import safe_path
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.sources import PeerSource
from modelplane.hydrate.transport import WebClient, shown
from modelplane.hydrate.volume import CompleteMarker

MARKER_PATH = "/v1/complete"
FILES_PATH = "/v1/files"


class PeerOrigin:
    """Takes the peer's key, layout and digests over. A peer that is not complete yet is asked again later."""

    def __init__(self, source: PeerSource, client: WebClient, secret: MountedSecret) -> None:
        self._url = source.url.rstrip("/")
        self._key = source.key
        self._client = client
        key = source.auth_secret_ref.key if source.auth_secret_ref is not None else None
        token = secret.token(key, ("token",))
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._reader = RangeReader(client, lambda _: self._headers)

    def resolve(self) -> ResolvedArtifact:
        marker = self._marker()
        if self._key not in {None, marker.key}:
            message = f"{shown(self._url)} holds the content key {marker.key}, and {self._key} was asked for"
            raise HydrateError(message, Reason.DIGEST_MISMATCH)
        files = tuple(
            ArtifactFile(
                safe_path(file.path),
                file.size,
                url=f"{self._url}{FILES_PATH}/{marker.key}/{quote(file.path)}",
                digest=f"sha256:{file.sha256}",
                blob=None if file.blob is None else safe_path(file.blob),
            )
            for file in marker.files
        )
        repo = None if marker.repo is None else safe_path(marker.repo)
        ref = None if marker.ref is None else safe_path(marker.ref)
        return ResolvedArtifact(safe_path(marker.key), safe_path(marker.revision), files, repo=repo, ref=ref)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        return self._reader.open(file, start, stop)

    def abort(self) -> None:
        self._client.abort()

    def _marker(self) -> CompleteMarker:
        content = self._client.get(f"{self._url}{MARKER_PATH}", self._headers).small()
        return decode_answer(content, CompleteMarker, f"{shown(self._url)} is not a peer")
