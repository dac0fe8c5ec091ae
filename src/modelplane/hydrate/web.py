"""Files behind URLs."""

import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from modelplane.api.reasons import Reason
from modelplane.hydrate.artifact import ArtifactFile, FileStream, ResolvedArtifact, content_key
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, SourceInvalidError
from modelplane.hydrate.paths import safe_path
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.sources import HttpSource, UrlEntry
from modelplane.hydrate.transport import Headers, WebClient, WebResponse, shown

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_TOTAL = re.compile(r"bytes 0-0/(\d+)")
_PARTIAL = 206


class WebOrigin:
    """One or more URLs. Without a digest, the ETag or the date must stay what it was."""

    def __init__(self, source: HttpSource, client: WebClient, secret: MountedSecret) -> None:
        self._files = [(entry, _path(entry), _digest(entry)) for entry in _entries(source)]
        self._client = client
        self._headers = _headers(source, secret)
        self._reader = RangeReader(client, lambda _: self._headers)

    def resolve(self) -> ResolvedArtifact:
        files = tuple(self._file(*each) for each in self._files)
        revision = content_key({}, repr([(file.path, file.digest or file.version) for file in files]))
        urls = [] if all(file.digest for file in files) else [file.url for file in files]
        return ResolvedArtifact(content_key({"http": urls}, revision), revision, files)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        return self._reader.open(file, start, stop)

    def abort(self) -> None:
        self._client.abort()

    def _file(self, entry: UrlEntry, path: str, digest: str | None) -> ArtifactFile:
        """Asks for one byte: that tells the size, and whether there are ranges, where HEAD is often not allowed."""
        response = self._client.get(entry.url, {**self._headers, "Range": "bytes=0-0"})
        size, ranged = _size(response)
        headers = response.headers
        response.close()
        if size is None and not response.is_chunked and digest is None:
            raise SourceInvalidError(f"{shown(entry.url)} gives no length, so its end cannot be told; give its digest")
        return ArtifactFile(
            path,
            size,
            url=entry.url,
            digest=digest,
            etag=headers.get("etag"),
            ranged=ranged,
            version=f"{headers.get('etag')}|{headers.get('last-modified')}|{size}",
        )


def _size(response: WebResponse) -> tuple[int | None, bool]:
    if response.status != _PARTIAL:
        return (None if response.is_chunked else response.length), False
    found = _TOTAL.fullmatch(response.headers.get("content-range", ""))
    return (int(found[1]), True) if found else (None, False)


def _entries(source: HttpSource) -> list[UrlEntry]:
    own = [UrlEntry(url=source.url, digest=source.digest, sha256=source.sha256)] if source.url else []
    listed = [UrlEntry(url=each) if isinstance(each, str) else each for each in source.urls]
    if not own and not listed:
        raise HydrateError("--source: http needs url or urls", Reason.INVALID)
    return [*own, *listed]


def _digest(entry: UrlEntry) -> str | None:
    given = entry.digest or entry.sha256
    if given is None:
        return None
    found = _DIGEST.fullmatch(given)
    if found is None:
        raise HydrateError(f"--source: http: {given!r} is not a SHA-256 digest", Reason.INVALID)
    return f"sha256:{found[1]}"


def _path(entry: UrlEntry) -> str:
    name = entry.path or PurePosixPath(unquote(urlsplit(entry.url).path)).name
    if not name:
        raise HydrateError(f"{shown(entry.url)} names no file; give its path", Reason.INVALID)
    return safe_path(name)


def _headers(source: HttpSource, secret: MountedSecret) -> Headers:
    if not _HEADER.fullmatch(source.header):
        raise HydrateError(f"--source: http: {source.header!r} is not the name of a header", Reason.INVALID)
    key = source.auth_secret_ref.key if source.auth_secret_ref is not None else None
    if secret.token_file is not None:
        return {source.header: f"Bearer {secret.token(None)}"}
    value = secret.token(key, (source.header, "header", "token"))
    return {} if value is None else {source.header: value}
