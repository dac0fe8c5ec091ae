"""A gateway that keeps a fleet router busy: what an Envoy says to it of each request, over HTTP/2 and bare sockets.

A call has the headers of a request, its body and the headers of its response, each sent once the one before is
answered, and is reset at its end, as Envoy does it.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING = 0, 1, 3, 4, 6
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_LARGEST: Final = (1 << 31) - 1
_FRAME_HEAD: Final = 9
_CANCEL: Final = (8).to_bytes(4)
_OPENING: Final = b"\x20" + b"".join(
    b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"),
        (b":authority", b"router"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
"""First that no table is kept, which the server requires."""

FrontMessages = tuple[bytes, ...]
"""What is said of one request, in order."""


class FrontCallsError(Exception):
    """The router ended a call or the connection."""


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _said(stream: int, message: bytes) -> bytes:
    return _frame(_DATA, 0, stream, b"\0" + len(message).to_bytes(4) + message)


class _FrontConnection(asyncio.Protocol):
    """Keeps so many calls open; `served` is called at the end of each."""

    def __init__(self, requests: Iterator[FrontMessages], calls: int, served: Callable[[], None]) -> None:
        self._requests, self._calls, self._served = requests, calls, served
        self._buffer = bytearray()
        self._number = -1
        self._left: dict[int, list[bytes]] = {}
        self._transport: asyncio.Transport | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        self._transport = transport
        settings = _frame(_SETTINGS, 0, 0, (4).to_bytes(2) + _LARGEST.to_bytes(4))
        window = _frame(8, 0, 0, (_LARGEST - 65_535).to_bytes(4))
        transport.write(_PREFACE + settings + window + b"".join(self._begin() for _ in range(self._calls)))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.failed.done():
            self.failed.set_exception(exc or FrontCallsError("the router closed the connection"))

    def data_received(self, data: bytes) -> None:
        buffer, at, out = self._buffer, 0, bytearray()
        buffer += data
        while len(buffer) - at >= _FRAME_HEAD:
            end = at + _FRAME_HEAD + int.from_bytes(buffer[at : at + 3])
            if len(buffer) < end:
                break
            out += self._answer(buffer[at + 3], buffer[at + 4], int.from_bytes(buffer[at + 5 : at + 9]))
            at = end
        del buffer[:at]
        if out and self._transport is not None:
            self._transport.write(out)

    def _begin(self) -> bytes:
        first, *rest = next(self._requests)
        self._number += 2
        self._left[self._number] = rest
        return _frame(_HEADERS, _END_HEADERS, self._number, _OPENING) + _said(self._number, first)

    def _answer(self, kind: int, flags: int, stream: int) -> bytes:
        """Each reply fits one frame, so a frame is a reply."""
        if kind == _SETTINGS and not flags & _ACK:
            return _frame(_SETTINGS, _ACK, 0, b"")
        if kind == _RESET or (kind == _HEADERS and flags & _END_STREAM):
            raise FrontCallsError("a request was refused")
        if kind != _DATA:
            return b""
        left = self._left[stream]
        if left:
            return _said(stream, left.pop(0))
        del self._left[stream]
        self._served()
        return _frame(_RESET, 0, stream, _CANCEL) + self._begin()


async def keep_busy(port: int, requests: Iterator[FrontMessages], *, calls: int, seconds: float) -> int:
    """How many requests the router served in that time."""
    count = 0

    def served() -> None:
        nonlocal count
        count += 1

    loop = asyncio.get_running_loop()
    transport, made = await loop.create_connection(lambda: _FrontConnection(requests, calls, served), "127.0.0.1", port)
    await asyncio.wait([made.failed], timeout=seconds)
    if made.failed.done():
        made.failed.result()
    made.failed.cancel()
    transport.close()
    return count
