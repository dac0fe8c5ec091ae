"""One stream: messages put together from frames, and messages cut into frames as the peer's windows allow."""

import logging
import struct
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from modelplane.epp.transport.calls import BatchHandler, GrpcStatus, Handler, MakeHandler
from modelplane.epp.transport.h2 import frames, hpack
from modelplane.epp.transport.h2.frames import (
    END_HEADERS,
    END_STREAM,
    LARGEST_WINDOW,
    ErrorCode,
    FrameType,
    H2StreamError,
)
from modelplane.epp.transport.h2.outbound import SendQueue
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG: Final = logging.getLogger(__name__)
_PREFIX_BYTES: Final = 5
_NEVER: Final = float("inf")
_LONGEST_REASON: Final = 1024
_HANDLER_FAILED: Final = "a handler failed"

_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_CONTENT_TYPE: Final = hpack.literal(b"content-type", b"application/grpc")
_STATUS_200: Final = b"\x88"
HEADERS: Final = _STATUS_200 + _CONTENT_TYPE
_OK_TRAILERS: Final = hpack.literal(b"grpc-status", b"0")
_PREFIX: Final = struct.Struct(">BI").pack
_FIRST: Final = struct.Struct(">HBBBIBI").pack
"""The head of a frame of messages, and the prefix of the first of them."""
_RESPONSE: Final = struct.Struct(f">HBBBI{len(HEADERS)}sHBBBIBI").pack
"""The same after the HEADERS frame of the response."""


def trailers(status: GrpcStatus, why: str) -> bytes:
    """The block that ends a call."""
    if status is GrpcStatus.OK:
        return _OK_TRAILERS
    block = hpack.literal(b"grpc-status", str(int(status)).encode())
    if why:
        block += hpack.literal(b"grpc-message", quote(why[:_LONGEST_REASON], safe=" !#$&'()*+,/:;=?@[]").encode())
    return block


class _CallError(Exception):
    """A rule of gRPC is broken: HTTP/2 is fine, so the call ends with a status."""

    def __init__(self, status: GrpcStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class StreamOwner:
    """The part of `StreamTable` that a stream calls."""

    __slots__ = ()

    @property
    def message_bytes(self) -> int:
        """The largest message that is accepted."""
        raise NotImplementedError

    def on_idle(self) -> None:
        raise NotImplementedError

    def wait(self, stream_id: int, stream: "Stream") -> None:
        """The stream has more to send than the windows let through."""
        raise NotImplementedError

    def on_local_end(self, stream_id: int, *, remote_closed: bool) -> None:
        """Our end of the stream is sent."""
        raise NotImplementedError

    def remove(self, stream_id: int, *, idle: bool) -> None:
        raise NotImplementedError


class Stream:
    """The server's end of a call (`ServerCall`), and the receiving end of its frames.

    An exception of its handler is logged and ends this call only.
    """

    __slots__ = (
        "_closed",
        "_content_length",
        "_deadline_s",
        "_handler",
        "_idle",
        "_outbound",
        "_owner",
        "_partial",
        "_receive_window",
        "_received",
        "_remote_closed",
        "_send_window",
        "_started",
        "_stream_id",
        "_trailers",
        "_unacked",
        "_unsent",
    )

    def __init__(
        self, owner: StreamOwner, outbound: SendQueue, stream_id: int, send_window: int, receive_window: int
    ) -> None:
        self._owner = owner
        self._outbound = outbound
        self._stream_id = stream_id
        self._handler: Handler | None = None
        self._send_window = send_window
        self._receive_window = receive_window
        self._unacked = 0
        """Received bytes that were not yet returned to the window."""
        self._deadline_s = _NEVER
        self._content_length = -1
        """Negative: absent."""
        self._received = 0
        self._idle = False
        self._started = False
        """Whether the response's headers are sent."""
        self._remote_closed = False
        self._closed = False
        self._trailers: bytes | None = None
        """Set once the handler has finished the call."""
        # Most calls need neither: their messages are whole in one frame, and their responses fit the windows.
        self._partial: bytearray | None = None
        """The bytes of an incomplete message."""
        self._unsent: bytearray | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_remote_closed(self) -> bool:
        """Whether the peer has sent all it will."""
        return self._remote_closed

    @property
    def is_started(self) -> bool:
        """Whether the response has begun."""
        return self._started

    @property
    def held_bytes(self) -> int:
        """The bytes of an incomplete message, and of output that waits for a window."""
        return len(self._partial or b"") + len(self._unsent or b"")

    def is_overdue(self, now_s: float) -> bool:
        return self._deadline_s <= now_s

    # Called by the handler.

    def send(self, *messages: bytes) -> None:
        if self._closed or self._trailers is not None or not messages:
            return
        outbound, first = self._outbound, messages[0]
        size = _PREFIX_BYTES * len(messages)
        for message in messages:
            size += len(message)
        if size > self._send_window or self._unsent or not outbound.try_reserve(size):
            self._send_later(messages)
            return
        self._send_window -= size
        stream_id, high, low = self._stream_id, size >> 8, size & 0xFF
        if self._started:
            head = _FIRST(high, low, _DATA, 0, stream_id, 0, len(first))
        else:
            self._started = True
            head = _RESPONSE(0, len(HEADERS), _HEADERS, END_HEADERS, stream_id, HEADERS,
                             high, low, _DATA, 0, stream_id, 0, len(first))  # fmt: skip
        parts = [head, first]
        for message in messages[1:]:
            parts.append(_PREFIX(0, len(message)))
            parts.append(message)
        outbound.queue_now(parts)

    def _send_later(self, messages: Sequence[bytes]) -> None:
        """Messages that do not fit the windows, or one frame."""
        if not self._started:
            self._started = True
            self._outbound.queue(frames.frame(_HEADERS, END_HEADERS, self._stream_id, HEADERS))
        if self._unsent is None:
            self._unsent = bytearray()
        for message in messages:
            self._unsent += _PREFIX(0, len(message))
            self._unsent += message
        self.push()
        self._outbound.notify()

    def finish(self, status: GrpcStatus = GrpcStatus.OK, why: str = "") -> None:
        if self._closed or self._trailers is not None:
            # Nothing is sent on a call that its peer reset, but its handler is finished.
            self._trailers = self._trailers or b""
            return
        self._trailers = trailers(status, why)
        self._end_if_sent()
        self._outbound.notify()

    def mark_idle(self) -> None:
        if not self._idle and not self._closed:
            self._idle = True
            self._owner.on_idle()

    # Sent when the windows allow.

    def push(self) -> None:
        """Send queued data, as far as the windows allow."""
        unsent, outbound = self._unsent or bytearray(), self._outbound
        place = 0
        while place < len(unsent):
            size = outbound.reserve_up_to(min(len(unsent) - place, self._send_window))
            if size <= 0:
                self._owner.wait(self._stream_id, self)
                break
            outbound.queue(
                frames.head(FrameType.DATA, 0, self._stream_id, size), bytes(memoryview(unsent)[place : place + size])
            )
            self._send_window -= size
            place += size
        del unsent[:place]
        self._end_if_sent()

    def _end_if_sent(self) -> None:
        if self._trailers is None or self._unsent or self._closed:
            return
        self._end(self._trailers if self._started else HEADERS + self._trailers)

    def _end(self, block: bytes) -> None:
        self._outbound.queue(
            frames.head(FrameType.HEADERS, END_HEADERS | END_STREAM, self._stream_id, len(block)), block
        )
        self._closed = True
        # A handler holds its call: without this, each call would stay until garbage is collected.
        self._handler = None
        self._owner.on_local_end(self._stream_id, remote_closed=self._remote_closed)
        self._owner.remove(self._stream_id, idle=self._idle)

    def widen(self, by: int) -> bool:
        """Change the send window. Whether it is a window still."""
        self._send_window += by
        return self._send_window <= LARGEST_WINDOW

    @property
    def is_blocked(self) -> bool:
        """Whether something waits for a window."""
        return bool(self._unsent)

    # How a call begins.

    def expect(self, content_length: int, deadline_s: float) -> None:
        self._content_length = content_length
        self._deadline_s = deadline_s

    def serve(self, make: MakeHandler) -> None:
        try:
            self._handler = make(self)
        except Exception:  # noqa: BLE001  one call's defect must not end the calls of every other client
            self._fail()

    def serve_messages(self, make: MakeHandler, messages: list[bytes], size: int) -> None:
        """The call, and messages that came with it in DATA frames of so many bytes together."""
        self._receive_window -= size
        self._unacked = self._received = size
        try:
            self._handler = handler = make(self)
            if isinstance(handler, BatchHandler) and messages:
                handler.messages(messages)
                return
            for message in messages:
                if self._closed or self._trailers is not None:
                    return
                handler.message(message)
        except Exception:  # noqa: BLE001  as above
            self._fail()

    def refuse(self, http_status: int) -> None:
        """A request that is not a gRPC call."""
        self._end(b"\x08" + bytes((3,)) + str(http_status).encode())

    # Input from the peer.

    def take_window(self, size: int) -> None:
        """A DATA frame of so many bytes came."""
        self._receive_window -= size
        if self._receive_window < 0:
            raise H2StreamError(self._stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more than the stream's window")
        self._unacked += size

    def update_window(self, update_at: int, unsent_bytes: int) -> None:
        """Let the peer send on, unless it does not read what it was sent."""
        if self._unacked < update_at or len(self._unsent or b"") > unsent_bytes:
            return
        self._outbound.queue(frames.window_update(self._stream_id, self._unacked))
        self._receive_window += self._unacked
        self._unacked = 0

    def take(self, data: bytes) -> bool:
        """Received DATA: complete messages go to the handler. False: it violates gRPC."""
        self._received += len(data)
        handler = self._handler
        if handler is None:
            return True
        try:
            if not self._partial and len(data) >= _PREFIX_BYTES and len(data) == _PREFIX_BYTES + self._length(data):
                handler.message(data[_PREFIX_BYTES:])
            else:
                self._take_pieces(handler, data)
        except _CallError as fault:
            self.give_up(fault.status, str(fault))
            return False
        except Exception:  # noqa: BLE001  as above
            self._fail()
        return True

    def _take_pieces(self, handler: Handler, data: bytes) -> None:
        if self._partial is None:
            self._partial = bytearray()
        partial = self._partial
        partial += data
        place = 0
        while len(partial) - place >= _PREFIX_BYTES and not self._closed:
            end = place + _PREFIX_BYTES + self._length(partial, place)
            if end > len(partial):
                break
            handler.message(bytes(memoryview(partial)[place + _PREFIX_BYTES : end]))
            place = end
        if place:
            # A handler that ends its call has no use for the rest, and a view of it is gone by here.
            del partial[:place]

    def _length(self, data: bytes | bytearray, place: int = 0) -> int:
        length = int.from_bytes(data[place + 1 : place + _PREFIX_BYTES], "big")
        if data[place]:
            raise _CallError(GrpcStatus.UNIMPLEMENTED, "compressed messages are not accepted")
        most = self._owner.message_bytes
        if length > most:
            raise _CallError(GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {length} bytes; {most} are accepted")
        return length

    def try_take_message(self, data: bytes, begin: int, end: int, update_at: int) -> bool:
        """A DATA frame's payload that is one whole message. False, and nothing has happened: take it by the rules."""
        size, handler = end - begin, self._handler
        used = self._unacked + size
        if handler is None or self._remote_closed or self._partial or self._trailers is not None:
            return False
        if size > self._receive_window or used >= update_at:
            return False
        self._receive_window -= size
        self._unacked = used
        self._received += size
        try:
            handler.message(data[begin + _PREFIX_BYTES : end])
        except Exception:  # noqa: BLE001  as above
            self._fail()
        return True

    def end_remote(self) -> None:
        """The peer has sent all it will; no handler is called."""
        self._remote_closed = True

    def end(self) -> None:
        """The peer has sent all it will."""
        if self._remote_closed:
            raise H2StreamError(self._stream_id, ErrorCode.STREAM_CLOSED, "the stream ends twice")
        self._remote_closed = True
        declared, received = self._content_length, self._received
        if declared >= 0 and declared != received:
            raise H2StreamError(
                self._stream_id, ErrorCode.PROTOCOL_ERROR, f"content-length {declared}, but {received} bytes came"
            )
        if self._partial:
            self.give_up(GrpcStatus.INTERNAL, "the stream ends in the middle of a message")
            return
        handler = self._handler
        if handler is not None:
            try:
                handler.closed()
            except Exception:  # noqa: BLE001  as above
                self._fail()

    def try_end_and_reset(self) -> bool:
        """The peer ends the stream and resets it at once. False, and nothing has happened: take it by the rules."""
        if self._remote_closed or not self._started or self._partial or self._content_length >= 0:
            return False
        handler, self._handler = self._handler, None
        self._remote_closed = self._closed = True
        self._owner.remove(self._stream_id, idle=self._idle)
        if handler is not None:
            try:
                handler.closed()
                if self._trailers is None:
                    handler.cancelled()
            except Exception:  # noqa: BLE001  as above
                _LOG.exception(_HANDLER_FAILED, extra=because(LogReason.HANDLER_FAILED))
        return True

    # How it ends otherwise.

    def give_up(self, status: GrpcStatus, sentence: str) -> None:
        """End a call that its handler has not ended."""
        handler, self._handler = self._handler, None
        self.finish(status, sentence)
        if handler is not None:
            _cancel(handler)

    def _fail(self) -> None:
        _LOG.exception(_HANDLER_FAILED, extra=because(LogReason.HANDLER_FAILED))
        self.give_up(GrpcStatus.INTERNAL, "the server failed to serve this call")

    def drop(self) -> None:
        """The call ended without our end: its handler is cancelled once."""
        handler, self._handler = self._handler, None
        self._closed = True
        self._unsent = self._partial = None
        self._owner.remove(self._stream_id, idle=self._idle)
        if handler is not None and self._trailers is None:
            _cancel(handler)


def _cancel(handler: Handler) -> None:
    try:
        handler.cancelled()
    except Exception:  # noqa: BLE001  as above
        _LOG.exception(_HANDLER_FAILED, extra=because(LogReason.HANDLER_FAILED))
