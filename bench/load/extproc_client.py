"""A client of external processing that is cheap enough to saturate several workers: HTTP/2 over bare sockets.

It says what an Envoy says that shows the picker requests whole and of responses only that they end. Frames are made
once; only the numbers of streams are written into them. Nothing is parsed beyond where messages and streams end.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_LARGEST: Final = (1 << 31) - 1
_FIRST_WINDOW: Final = 65_535
_PATH: Final = b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"
_REPLIES: Final = 2
"""To the headers, and to the body."""
_DUPLEX: Final = 4
_HEAD: Final = 9
_LAST_NUMBER: Final = _LARGEST - 2


class PickerError(Exception):
    """The picker ended a connection, or picked nothing."""


def _frame(kind: int, flags: int, payload: bytes, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _literal(name: bytes, value: bytes) -> bytes:
    """A header that no table remembers."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def _grpc(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


def exchange(body: bytes) -> tuple[bytes, tuple[int, ...]]:
    """The frames that begin a request, and where the numbers of their stream are."""
    named = ((b":method", b"POST"), (b":path", b"/v1/chat/completions"), (b"content-type", b"application/json"))
    listed = b"".join(_field(1, _field(1, name) + _field(3, value)) for name, value in named)
    first = _field(2, _field(1, listed)) + _field(11, _field(1, _DUPLEX))
    whole = _field(4, _field(1, body) + _field(2, 1))
    # First that no table is kept, which the picker requires.
    heads = (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", _PATH), (b":authority", b"picker"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers"),
    )  # fmt: skip
    block = b"\x20" + b"".join(_literal(name, value) for name, value in heads)
    frames = (
        _frame(_HEADERS, _END_HEADERS, block), _frame(_DATA, 0, _grpc(first)), _frame(_DATA, 0, _grpc(whole)),
    )  # fmt: skip
    places, at = [], 0
    for frame in frames:
        places.append(at + 5)
        at += len(frame)
    return b"".join(frames), tuple(places)


class PickerConnection(asyncio.Protocol):
    """Keeps so many requests waiting for their pick at a time; `picked` is called for each that has it."""

    def __init__(
        self, requests: Iterator[tuple[bytes, tuple[int, ...]]], streams: int, picked: Callable[[], None]
    ) -> None:
        self._requests, self._streams, self._picked = requests, streams, picked
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._number = -1
        self._replies: dict[int, int] = {}
        self._window = _FIRST_WINDOW
        self._is_ending = self._goes_away = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        self._transport = transport
        settings = _frame(_SETTINGS, 0, (4).to_bytes(2) + _LARGEST.to_bytes(4))
        grown = _frame(_WINDOW, 0, (_LARGEST - _FIRST_WINDOW).to_bytes(4))
        transport.write(_PREFACE + settings + grown)
        self._fill()

    def close(self) -> None:
        self._is_ending = True
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            if self._is_ending:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(exc or PickerError("the picker closed the connection"))

    def _fill(self) -> None:
        out = bytearray()
        while not self._goes_away and len(self._replies) < self._streams and self._number < _LAST_NUMBER:
            frames, places = next(self._requests)
            if self._window < len(frames):
                break
            self._window -= len(frames)
            self._number += 2
            at = len(out)
            out += frames
            number = self._number.to_bytes(4)
            for place in places:
                out[at + place : at + place + 4] = number
            self._replies[self._number] = 0
        if out and self._transport is not None:
            self._transport.write(out)

    def data_received(self, data: bytes) -> None:
        buffer, at = self._buffer, 0
        buffer += data
        out = bytearray()
        while len(buffer) - at >= _HEAD:
            end = at + _HEAD + int.from_bytes(buffer[at : at + 3])
            if len(buffer) < end:
                break
            stream = int.from_bytes(buffer[at + 5 : at + 9]) & _LARGEST
            self._on_frame(buffer[at + 3], buffer[at + 4], stream, bytes(buffer[at + _HEAD : end]), out)
            at = end
        del buffer[:at]
        if out and self._transport is not None:
            self._transport.write(out)
        self._fill()
        if self._goes_away and not self._replies:
            self.close()

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes, out: bytearray) -> None:
        if kind == _DATA and payload:
            self._on_replies(stream, payload, out)
        elif kind == _SETTINGS and not flags & _ACK:
            out += _frame(_SETTINGS, _ACK, b"")
        elif kind == _PING and not flags & _ACK:
            out += _frame(_PING, _ACK, payload)
        elif kind == _WINDOW and not stream:
            self._window += int.from_bytes(payload)
        elif kind == _GOAWAY:
            # A picker of several workers moves connections to a worker that has few, as one that came later.
            self._goes_away = True
        is_end = kind == _RESET or (kind in {_DATA, _HEADERS} and bool(flags & _END_STREAM))
        if is_end and stream in self._replies:
            raise PickerError("a request was refused")

    def _on_replies(self, stream: int, payload: bytes, out: bytearray) -> None:
        at = 0
        while at < len(payload):
            at += 5 + int.from_bytes(payload[at + 1 : at + 5])
            self._replies[stream] += 1
        if self._replies[stream] >= _REPLIES:
            # The response of this pool is there at once, and the picker need not be waited for any more.
            del self._replies[stream]
            out += _frame(_DATA, _END_STREAM, b"", stream)
            self._picked()


async def pick_until(
    port: int,
    requests: Iterator[tuple[bytes, tuple[int, ...]]],
    *,
    connections: int,
    streams: int,
    from_s: float,
    until_s: float,
) -> int:
    """Requests that were picked for between these two times of the monotonic clock."""
    loop, count = asyncio.get_running_loop(), 0

    def picked() -> None:
        nonlocal count
        count += from_s <= loop.time() < until_s

    async def keep() -> None:
        """A connection, and another one each time the picker ends it."""
        while loop.time() < until_s:
            connected = await loop.create_connection(
                lambda: PickerConnection(requests, streams, picked), "127.0.0.1", port
            )
            await asyncio.wait([connected[1].ended], timeout=max(0.0, until_s - loop.time()))
            connected[1].close()
            await connected[1].ended

    await asyncio.gather(*(keep() for _ in range(connections)))
    return count
