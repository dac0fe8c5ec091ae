"""Handles the frames of nearly all calls in one step instead of frame by frame.

A call begins with a known header block, and its first messages come with it, each in a frame of its own; so do later
ones. It ends with an empty frame, after which Envoy resets the stream. The fast path recognises this among the received
bytes; everything else, and every violation, is left to `connection`, with the same result. The one difference is that a
stream which is reset right after its end gets no trailers: the peer would drop them. Its gain: design/0011-http2.md.
"""

import struct
from collections.abc import Callable
from typing import Final

from modelplane.epp.transport.calls import MakeHandler
from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.frames import END_HEADERS, END_STREAM, HEADER_BYTES, FrameType
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.h2.receive_window import ReceiveWindow
from modelplane.epp.transport.h2.stream_table import StreamTable

_RESET: Final = int(FrameType.RST_STREAM)
_PREFIX_BYTES: Final = 5
_FULL_RESET_BYTES: Final = HEADER_BYTES + frames.RESET_BYTES
_read_prefix: Final[Callable[[bytes, int], tuple[int, int]]] = struct.Struct(">BI").unpack_from
_read_message_head: Final[Callable[[bytes, int], tuple[int, int, int, int, int, int]]] = struct.Struct(
    ">HBHIBI"
).unpack_from
"""A frame that begins with a message: its length, its type and flags, its stream; the message's prefix."""
_MESSAGE: Final = int(FrameType.DATA) << 8
_END: Final = int(FrameType.DATA) << 8 | END_STREAM
_BEGIN: Final = int(FrameType.HEADERS) << 8 | END_HEADERS


class FastPath:
    """Recognises these frames on one connection."""

    __slots__ = ("_known", "_most", "_streams", "_update_at", "_window")

    def __init__(self, limits: H2Limits, streams: StreamTable, window: ReceiveWindow) -> None:
        self._streams = streams
        self._window = window
        self._most = min(limits.frame_bytes, limits.message_bytes + _PREFIX_BYTES)
        """Bytes of a frame that is one message."""
        self._update_at = streams.update_at
        self._known: dict[bytes, tuple[MakeHandler, float]] = {}
        """By header block: the handler of the call, and the caller's timeout in seconds; negative: none."""

    def learn(self, block: bytes, make: MakeHandler, timeout_s: float) -> None:
        """A block that does not depend on the HPACK state."""
        self._known[block] = (make, timeout_s)

    def try_take(self, kind: int, stream_id: int, data: bytes, begin: int, end: int, now_s: float) -> int:
        """A frame of a type and flags. Where what comes next begins; 0, and nothing has happened: it is another."""
        if kind == _BEGIN:
            return self._try_begin(stream_id, data, begin, end, now_s)
        if kind == _END:
            return self._try_end(stream_id, data, begin, end)
        return self._try_message(stream_id, data, begin, end) if kind == _MESSAGE else 0

    def _try_begin(self, stream_id: int, data: bytes, begin: int, place: int, now_s: float) -> int:
        known = self._known.get(data[begin:place])
        stream = None if known is None else self._streams.try_open(stream_id)
        if known is None or stream is None:
            return 0
        make, timeout_s = known
        if timeout_s >= 0.0:
            stream.expect(-1, now_s + timeout_s)
        messages, end = self._whole_messages(stream_id, data, place)
        size = end - place - HEADER_BYTES * len(messages)
        self._window.take(size)
        stream.serve_messages(make, messages, size)
        return end

    def _whole_messages(self, stream_id: int, data: bytes, place: int) -> tuple[list[bytes], int]:
        """Messages of a stream from a place on, and where they end: as many as make no WINDOW_UPDATE due."""
        messages: list[bytes] = []
        free = min(self._update_at - 1, self._window.free_bytes)
        last = len(data) - HEADER_BYTES - _PREFIX_BYTES
        while place <= last:
            high, low, kind, other, compressed, length = _read_message_head(data, place)
            size = high << 8 | low
            end = place + HEADER_BYTES + size
            free -= size
            if kind or other != stream_id or compressed or length != size - _PREFIX_BYTES:
                break
            if size > self._most or end > len(data) or free < 0:
                break
            messages.append(data[place + HEADER_BYTES + _PREFIX_BYTES : end])
            place = end
        return messages, place

    def _try_message(self, stream_id: int, data: bytes, begin: int, end: int) -> int:
        """A message of an open call that is whole in its frame."""
        stream, size = self._streams.get(stream_id), end - begin
        if stream is None or not _PREFIX_BYTES <= size <= self._most or size > self._window.free_bytes:
            return 0
        compressed, length = _read_prefix(data, begin)
        if compressed or length != size - _PREFIX_BYTES:
            return 0
        if not stream.try_take_message(data, begin, end, self._update_at):
            return 0
        self._window.take(size)
        return end

    def _try_end(self, stream_id: int, data: bytes, begin: int, place: int) -> int:
        """The end of a call and a reset right after it."""
        end = place + _FULL_RESET_BYTES
        if begin != place or end > len(data):
            return 0
        high, low, kind, _flags, other = frames.read_head(data, place)
        if kind != _RESET or other != stream_id or high or low != frames.RESET_BYTES:
            return 0
        stream = self._streams.get(stream_id)
        return end if stream is not None and stream.try_end_and_reset() else 0
