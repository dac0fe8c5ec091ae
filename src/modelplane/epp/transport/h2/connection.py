"""One HTTP/2 connection of a gRPC server, without IO: bytes in, calls of handlers, bytes out.

`receive` takes bytes and never raises: a peer that violates RFC 9113 gets the stream or connection error of the RFC,
and an exception of a handler ends its own call only. Output is buffered; `take_output` returns it. The clock is an
argument.

What bounds memory: a frame and a header block have a largest size; a message has one; a stream takes in no more than
its window while its peer does not read what it was sent; streams are counted. What bounds work: `flood_guard`.
"""

from collections.abc import Callable
from typing import Final

from modelplane.epp.transport.calls import GrpcStatus, Methods
from modelplane.epp.transport.h2 import frames, hpack
from modelplane.epp.transport.h2.control import Control
from modelplane.epp.transport.h2.fast_path import FastPath
from modelplane.epp.transport.h2.flood_guard import FloodGuard
from modelplane.epp.transport.h2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEADER_BYTES,
    LARGEST_WINDOW,
    PADDED,
    PRIORITISED,
    ErrorCode,
    FrameType,
    H2ConnectionError,
    H2StreamError,
)
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.h2.outbound import SendQueue
from modelplane.epp.transport.h2.reader import FrameReader
from modelplane.epp.transport.h2.receive_window import ReceiveWindow
from modelplane.epp.transport.h2.request_head import RequestHead, read_request_head, trailers_malformed
from modelplane.epp.transport.h2.stream_table import StreamTable

_MOST_OPENINGS: Final = 256
_NEVER: Final = float("inf")
_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_RESET: Final = int(FrameType.RST_STREAM)
_SETTINGS: Final = int(FrameType.SETTINGS)
_CONTINUATION: Final = int(FrameType.CONTINUATION)


class H2Connection:
    """The server's side. `on_output` is called when there is output that `receive` did not cause.

    Without `fast` every frame is taken by the rules: tests compare the two.
    """

    def __init__(
        self,
        methods: Methods,
        limits: H2Limits,
        *,
        now_s: float,
        on_output: Callable[[], None] = lambda: None,
        fast: bool = True,
    ) -> None:
        self._methods = methods
        self._limits = limits
        self._now_s = now_s
        self._closing = False
        self._drained = False
        """The peer opens no more streams."""
        self._since_s = now_s
        """Since when the peer owes us the rest of something."""
        self._frame_bytes = limits.frame_bytes
        self._reader = FrameReader()
        self._decoder = hpack.Decoder(limits.header_list_bytes)
        self._openings: dict[bytes, RequestHead] = {}
        """By blocks that mean the same whenever they come."""
        self._unfinished_block: tuple[int, int, bytearray] | None = None
        """Flags, stream and beginning of a header block that continues."""
        self._outbound = SendQueue(on_output)
        self._guard = FloodGuard(limits.resets, limits.no_op_frames, now_s)
        self._streams = StreamTable(limits, self._outbound, self._guard, now_s)
        self._window = ReceiveWindow(limits.connection_window)
        self._control = Control(limits, self._outbound, self._streams, self._decoder, self._guard)
        self._fast_path = FastPath(limits, self._streams, self._window) if fast else None
        self._control.send_settings()

    # Called by the driver.

    def receive(self, data: bytes, now_s: float) -> None:
        """Bytes from the peer."""
        if self._closing or (self._drained and self._streams.is_over):
            return
        self._now_s = now_s
        self._streams.set_time(now_s)
        self._outbound.cork()
        try:
            self._read(data)
        except H2ConnectionError as fault:
            self.abort(fault.code, str(fault))
        finally:
            self._outbound.uncork()

    def take_output(self) -> bytes:
        """Everything that is to be written."""
        return self._outbound.take()

    @property
    def closing(self) -> bool:
        """Nothing more is read; once the output is written the connection can be closed."""
        return self._closing or (self._drained and self._streams.is_over)

    @property
    def idle(self) -> bool:
        """Whether calls are open, and nothing is awaited but their ends and new calls."""
        streams, control = self._streams, self._control
        if streams.active or not streams.count:
            return False
        return not self._reader.held_bytes and control.is_settled and not control.is_draining

    def tick(self, now_s: float) -> None:
        """Let time pass: calls beyond their deadline end, and a peer that stalls is given up."""
        self._now_s = now_s
        self._streams.tick(now_s)
        settled = self._control.is_settled
        limit_s = self._limits.stall_s if settled else self._limits.begin_s
        if (self._reader.held_bytes or self._unfinished_block or not settled) and now_s - self._since_s > limit_s:
            self.abort(ErrorCode.ENHANCE_YOUR_CALM, f"nothing complete came within {limit_s:g} s")

    def drain(self) -> None:
        """Take no new streams and close once the open ones have ended."""
        if not self.closing:
            self._control.drain()

    def abort(self, code: ErrorCode, sentence: str) -> None:
        """Give the connection up, and every call with it."""
        if self.closing:
            return
        self._outbound.queue(frames.goaway(self._streams.last, code, sentence))
        self.connection_lost()
        self._outbound.notify()

    def connection_lost(self) -> None:
        """The connection is lost."""
        self._closing = True
        self._reader.drop()
        self._streams.drop_all()

    # Frames.

    def _read(self, data: bytes) -> None:
        reader, fast_path = self._reader, self._fast_path
        if not reader.plain:
            data = reader.join(data)
        place, size, largest, now_s = 0, len(data), self._frame_bytes, self._now_s
        while size - place >= HEADER_BYTES:
            high, low, kind, flags, stream_id = frames.read_head(data, place)
            begin = place + HEADER_BYTES
            end = begin + (high << 8 | low)
            if end - begin > largest:
                raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {end - begin} bytes")
            if end > size:
                break
            self._since_s = now_s
            stream_id &= LARGEST_WINDOW
            place = 0
            if fast_path is not None and self._unfinished_block is None:
                place = fast_path.try_take(kind << 8 | flags, stream_id, data, begin, end, now_s)
            if not place:
                self._frame(kind, flags, stream_id, data[begin:end])
                if self._closing:
                    return
                place = end
            if self._drained and self._streams.is_over:
                return
        if place < size:
            reader.hold(data[place:])

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._unfinished_block is not None and kind != _CONTINUATION:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "another frame inside a header block")
        if not self._control.is_settled and (kind != _SETTINGS or flags & ACK):
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind > _CONTINUATION:
            self._guard.spend_no_op(self._now_s)
            return
        try:
            self._dispatch(kind, flags, stream_id, payload)
        except H2StreamError as fault:
            self._streams.reset(fault.stream, fault.code)

    def _dispatch(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == _DATA:
            self._on_data(flags, stream_id, payload)
        elif kind == _HEADERS:
            self._on_headers(flags, stream_id, payload)
        elif kind == _RESET:
            if len(payload) != frames.RESET_BYTES:
                raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "a reset of the wrong size")
            self._streams.on_reset(stream_id)
        elif kind == _CONTINUATION:
            self._on_continuation(flags, stream_id, payload)
        else:
            self._control.receive(kind, flags, stream_id, payload, self._now_s)
            self._drained = self._control.is_drained

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size, ends = len(payload), bool(flags & END_STREAM)
        increment = self._window.take(size)
        if increment:
            self._outbound.queue(frames.window_update(0, increment))
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_remote_closed:
            self._streams.check_late_data(stream_id, ends=ends)
            return
        if flags & PADDED:
            payload = _unpad(payload)
        stream.take_window(size)
        if payload:
            if not stream.take(payload):
                return
        elif not ends:
            self._guard.spend_no_op(self._now_s)
        if stream.is_closed:
            return
        if ends:
            stream.end()
        else:
            self._streams.update_window(stream)

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id % 2:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"a client opens stream {stream_id}")
        if flags & PADDED:
            payload = _unpad(payload)
        if flags & PRIORITISED:
            if len(payload) < frames.PRIORITY_BYTES:
                raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "headers too short for their priority")
            payload = payload[frames.PRIORITY_BYTES :]
        if flags & END_HEADERS:
            self._on_block(stream_id, payload, ends=bool(flags & END_STREAM))
        else:
            self._unfinished_block = (flags, stream_id, bytearray(payload))

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._unfinished_block
        if block is None or block[1] != stream_id:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        if not payload:
            self._guard.spend_no_op(self._now_s)
        gathered = block[2]
        gathered += payload
        if len(gathered) > self._limits.header_block_bytes:
            raise H2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of more than {len(gathered)} bytes")
        if flags & END_HEADERS:
            self._unfinished_block = None
            self._on_block(stream_id, bytes(gathered), ends=bool(block[0] & END_STREAM))

    def _on_block(self, stream_id: int, block: bytes, *, ends: bool) -> None:
        """A whole header block: it begins a stream or ends one."""
        opening = self._openings.get(block)
        if opening is not None and self._streams.note(stream_id):
            self._open(stream_id, opening, ends=ends)
            return
        try:
            headers = self._decoder.read(block)
        except hpack.HpackError as error:
            raise H2ConnectionError(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        except hpack.TooLongError as excess:
            self._streams.note(stream_id)
            raise H2StreamError(stream_id, ErrorCode.ENHANCE_YOUR_CALM, str(excess)) from excess
        if self._streams.note(stream_id):
            opening = read_request_head(headers)
            if self._decoder.remembers(block) and len(self._openings) < _MOST_OPENINGS:
                self._remember(block, opening)
            self._open(stream_id, opening, ends=ends)
        else:
            self._on_trailers(stream_id, headers, ends=ends)

    def _remember(self, block: bytes, opening: RequestHead) -> None:
        self._openings[block] = opening
        make = self._methods.get(opening.path)
        if self._fast_path is None or make is None:
            return
        if not opening.malformed and not opening.refused and opening.length < 0:
            self._fast_path.learn(block, make, opening.timeout_s)

    def _on_trailers(self, stream_id: int, headers: hpack.Block, *, ends: bool) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._streams.check_late_headers(stream_id)
            return
        if stream.is_remote_closed:
            raise H2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "headers after the end")
        if not ends or trailers_malformed(headers):
            raise H2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "trailers that are malformed or end nothing")
        stream.end()

    def _open(self, stream_id: int, opening: RequestHead, *, ends: bool) -> None:
        if self._streams.is_refused(stream_id):
            return
        if opening.malformed:
            raise H2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, opening.malformed)
        stream = self._streams.open(stream_id)
        make = self._methods.get(opening.path)
        if opening.refused or make is None:
            if ends:
                stream.end_remote()
            if opening.refused:
                stream.refuse(opening.refused)
            else:
                stream.finish(GrpcStatus.UNIMPLEMENTED, f"no method {opening.path}")
            return
        deadline_s = self._now_s + opening.timeout_s if opening.timeout_s >= 0 else _NEVER
        stream.expect(opening.length, deadline_s)
        stream.serve(make)
        if ends:
            stream.end()


def _unpad(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "more padding than there is frame")
    return payload[1 : len(payload) - payload[0]]
