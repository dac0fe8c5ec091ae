"""Envoy's access log as it grows: what each request to a replica got.

The gateway of a cluster logs a request with the replica that it was sent to. The fleet gateway logs it as well, without
one, so each request counts once. A log that was rotated is read to its end, then the new one from its beginning.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from modelplane.api.timestamps import epoch_s

_FIRST_ERROR = 500
_MOST_BYTES = 4 * 1024 * 1024
"""Read at a time. The rest is read the next time."""
_CLUSTER = "cluster."


class _Line(msgspec.Struct, frozen=True):
    time: str = ""
    gateway: str = ""
    status: int = 0
    replica: str | None = None
    first_byte_ms: int | None = None
    duration_ms: int | None = None


_decode = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """`replica` is its namespace and name. A request without a response failed."""

    replica: str
    failed: bool
    first_byte_ms: int | None
    duration_ms: int | None
    status: int = 0


def read_line(line: bytes) -> ServedRequest | None:
    """None for what is no request to a replica."""
    found = _read(line)
    return None if found is None else _request(found)


def requests_since(path: Path, since_s: float) -> list[ServedRequest]:
    """Those that began after a time, of the end of a log; without a log none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_BYTES))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    recent = (found for line in lines if (found := _read(line)) is not None and (epoch_s(found.time) or 0.0) >= since_s)
    return [request for found in recent if (request := _request(found)) is not None]


def _read(line: bytes) -> _Line | None:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return None


def _request(found: _Line) -> ServedRequest | None:
    if not found.replica or not found.gateway.startswith(_CLUSTER):
        return None
    failed = found.status == 0 or found.status >= _FIRST_ERROR
    return ServedRequest(found.replica, failed, found.first_byte_ms, found.duration_ms, found.status)


class AccessLogReader:
    """Reads from where the log ends when it is opened first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._rest = b""
        self._opened = False

    def read(self) -> Iterator[ServedRequest]:
        """The requests since the last call."""
        for line in self._lines():
            found = read_line(line)
            if found is not None:
                yield found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _lines(self) -> Iterator[bytes]:
        if self._file is None and not self._open():
            return
        yield from self._grown()
        if self._is_rotated():
            yield from self._grown()
            self.close()
            if self._open():
                yield from self._grown()

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            self._opened = True  # whatever comes is new
            return False
        if not self._opened:
            self._file.seek(0, os.SEEK_END)
        self._opened, self._rest = True, b""
        return True

    def _grown(self) -> Iterator[bytes]:
        assert self._file is not None  # noqa: S101  callers opened it
        *lines, self._rest = (self._rest + self._file.read(_MOST_BYTES)).split(b"\n")
        return iter(lines)

    def _is_rotated(self) -> bool:
        assert self._file is not None  # noqa: S101  callers opened it
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False
