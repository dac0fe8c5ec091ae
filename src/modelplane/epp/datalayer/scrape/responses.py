"""Reads HTTP/1.1 responses out of bytes as they arrive: nothing of the network in it.

Only what a metrics page needs: a content length, chunks, or the end of the connection. Encoded bodies, endless heads
and pages over the limit are rejected.
"""

import re
from typing import Final

_HEAD_MOST: Final = 32_768
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_CHUNK_LINE_MOST: Final = 256
_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE_BELOW: Final = 200


class BadResponse(Exception):  # noqa: N818 - an outcome, not a fault of ours
    """The bytes are not a usable response."""


class Response:
    """Status, body, and whether the connection can carry another request."""

    __slots__ = ("body", "reusable", "status")

    def __init__(self, status: int, body: bytes, *, reusable: bool) -> None:
        self.status = status
        self.body = body
        self.reusable = reusable


class ResponseReader:
    """One response after another of one connection."""

    __slots__ = ("_at", "_body", "_buffer", "_chunked", "_length", "_limit", "_reusable", "_status")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._at = 0
        """The start of the unread bytes."""
        self._begin()

    @property
    def started(self) -> bool:
        """Whether part of a response is here."""
        return bool(self._buffer) or self._status != 0

    def feed(self, data: bytes) -> Response | None:
        """The response that these bytes complete."""
        self._buffer += data
        if len(self._buffer) > self._limit + _HEAD_MOST:
            raise BadResponse(f"a page of more than {self._limit} bytes")
        while not self._status:
            if not self._head():
                return None
        if self._chunked:
            return self._finished() if self._chunks() else None
        if self._length >= 0 and len(self._buffer) - self._at >= self._length:
            with memoryview(self._buffer) as held:
                self._body = bytes(held[self._at : self._at + self._length])
            self._at += self._length
            return self._finished()
        return None

    def end(self) -> Response | None:
        """The connection ended: the response that this completes, where its end was its length."""
        if not self._status or self._chunked or self._length >= 0:
            return None
        self._body = bytes(self._buffer[self._at :])
        self._at = len(self._buffer)
        return self._finished()

    def _begin(self) -> None:
        self._status = 0
        self._length = -1
        self._chunked = False
        self._reusable = True
        self._at = 0
        self._body = b""

    def _finished(self) -> Response:
        rest = len(self._buffer) > self._at
        response = Response(self._status, self._body, reusable=self._reusable and not rest)
        self._buffer.clear()
        self._begin()
        return response

    def _head(self) -> bool:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            if len(self._buffer) > _HEAD_MOST:
                raise BadResponse("a head without end")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        found = _STATUS.fullmatch(first)
        if found is None:
            raise BadResponse("no HTTP/1.1 response")
        status = int(found[1])
        if status < _CONTINUE_BELOW:
            del self._buffer[: end + len(_HEAD_END)]
            return bool(self._buffer)
        self._status = status
        self._reusable = not first.startswith(b"HTTP/1.0")
        self._at = end + len(_HEAD_END)
        for line in lines:
            self._field(line)
        return True

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip().lower()
        if name == b"content-length":
            if not value.isdigit() or int(value) > self._limit:
                raise BadResponse(f"a page of {value[:20].decode(errors='replace')} bytes; the most is {self._limit}")
            self._length = int(value)
        elif name == b"transfer-encoding":
            if value != b"chunked":
                raise BadResponse("a transfer encoding other than chunked")
            self._chunked = True
        elif name == b"content-encoding" and value != b"identity":
            raise BadResponse("the body is encoded, and no encoding was requested")
        elif name == b"connection" and b"close" in value:
            self._reusable = False

    def _chunks(self) -> bool:
        """Take whole chunks off the buffer; True after the last."""
        buffer = self._buffer
        parts = [self._body] if self._body else []
        done = False
        while not done:
            end = buffer.find(b"\r\n", self._at, self._at + _CHUNK_LINE_MOST)
            if end < 0:
                if len(buffer) - self._at >= _CHUNK_LINE_MOST:
                    raise BadResponse("a chunk without a size")
                break
            size = _chunk_size(bytes(buffer[self._at : end]))
            data, after = end + 2, end + 2 + size + 2
            if size == 0:
                done = self._trailers(data)
                break
            if len(buffer) < after:
                break
            parts.append(bytes(buffer[data : data + size]))
            self._at = after
        self._body = b"".join(parts)
        self._drop_read()
        return done

    def _trailers(self, data: int) -> bool:
        """Whether the last chunk is complete: an empty line, after optional trailers."""
        if self._buffer.startswith(b"\r\n", data):
            self._at = data + 2
            return True
        end = self._buffer.find(_HEAD_END, data)
        if end >= 0:
            self._at = end + len(_HEAD_END)
        return end >= 0

    def _drop_read(self) -> None:
        if len(self._body) > self._limit:
            raise BadResponse(f"a page of more than {self._limit} bytes")
        del self._buffer[: self._at]
        self._at = 0


def _chunk_size(line: bytes) -> int:
    found = _SIZE.fullmatch(line)
    if found is None:
        raise BadResponse("a chunk without a size")
    return int(found[1], 16)
