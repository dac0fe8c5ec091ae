"""Ranges of files over HTTP: the part of a fetch that all sources on the network share."""

import re
from collections.abc import Callable

from modelplane.hydrate.artifact import ArtifactFile
from modelplane.hydrate.errors import SourceChangedError, TryAgainError
from modelplane.hydrate.transport import Headers, StatusError, WebClient, WebResponse, same_origin, shown

_PARTIAL = 206
_CHANGED = frozenset({412, 416})
_EXPIRED = frozenset({401, 403, 404, 410})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_SKIP_BYTES = 1 << 20


class RangeReader:
    """Asks for ranges. Where a URL redirects, the target is asked directly until it no longer answers."""

    def __init__(self, client: WebClient, headers: Callable[[ArtifactFile], Headers]) -> None:
        self._client = client
        self._headers = headers
        self._located: dict[str, str] = {}

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> WebResponse:
        located = self._located.get(file.url)
        if located is not None:
            try:
                return self._request(file, located, start, stop)
            except StatusError as error:
                if error.status not in _EXPIRED:
                    raise
                # Parts of a file are fetched by several threads: another may have found the same.
                self._located.pop(file.url, None)
        try:
            response = self._request(file, file.url, start, stop)
        except StatusError as error:
            if error.status in _CHANGED:
                raise SourceChangedError(f"{file.path} changed at the source") from error
            raise
        if response.url != file.url:
            self._located[file.url] = response.url
        return response

    def _request(self, file: ArtifactFile, url: str, start: int, stop: int | None) -> WebResponse:
        headers = dict(self._headers(file)) if same_origin(url, file.url) else {}
        whole = start == 0 and (stop is None or stop == file.size)
        if not whole:
            headers["Range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        response = self._client.get(url, headers)
        try:
            _check(file, response, start)
        except BaseException:
            response.close()
            raise
        return response


def _check(file: ArtifactFile, response: WebResponse, start: int) -> None:
    etag = response.headers.get("etag")
    if file.etag is not None and etag is not None and etag != file.etag:
        raise SourceChangedError(f"{file.path} changed at the source: its ETag is {etag}, and was {file.etag}")
    if response.status == _PARTIAL:
        _check_range(file, response, start)
        return
    if file.size is not None and response.length is not None and response.length != file.size:
        raise SourceChangedError(f"{file.path} has {response.length} bytes at the source, and {file.size} were listed")
    _skip(response, start)


def _check_range(file: ArtifactFile, response: WebResponse, start: int) -> None:
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is None or int(found[1]) != start:
        raise TryAgainError(f"{shown(response.url)} answered with another range than it was asked for")
    if found[3] != "*" and file.size is not None and int(found[3]) != file.size:
        raise SourceChangedError(f"{file.path} has {found[3]} bytes at the source, and {file.size} were listed")


def _skip(response: WebResponse, count: int) -> None:
    """A server without ranges sends the file from its start."""
    buffer = memoryview(bytearray(min(_SKIP_BYTES, count)))
    while count:
        read = response.readinto(buffer[: min(len(buffer), count)])
        if not read:
            raise TryAgainError(f"{shown(response.url)} ended too early")
        count -= read
