"""One stream: messages put together from frames, and messages cut into frames as the peer's windows allow."""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from modelplane.epp.transport.calls import GrpcStatus, Handler
from modelplane.epp.transport.h2 import frames, hpack
from modelplane.epp.transport.h2.frames import END_HEADERS, END_STREAM, ErrorCode, FrameType, StreamFault

if TYPE_CHECKING:
    from modelplane.epp.transport.h2.connection import H2Connection

_PREFIX_BYTES: Final = 5
_NEVER: Final = float("inf")
_LONGEST_REASON: Final = 1024

_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_CONTENT_TYPE: Final = hpack.literal(b"content-type", b"application/grpc")
_STATUS_200: Final = b"\x88"
HEADERS: Final = _STATUS_200 + _CONTENT_TYPE
_OK_TRAILERS: Final = hpack.literal(b"grpc-status", b"0")
_PREFIX: Final = struct.Struct(">BI").pack
_FIRST: Final = struct.Struct(">HBBBIBI").pack
"""The head of a frame of messages, and the prefix of the first of them."""
_ANSWER: Final = struct.Struct(f">HBBBI{len(HEADERS)}sHBBBIBI").pack
"""The same after the frame that begins an answer."""


def trailers(status: GrpcStatus, why: str) -> bytes:
    """The block that ends a call."""
    if status is GrpcStatus.OK:
        return _OK_TRAILERS
    block = hpack.literal(b"grpc-status", str(int(status)).encode())
    if why:
        block += hpack.literal(b"grpc-message", quote(why[:_LONGEST_REASON], safe=" !#$&'()*+,/:;=?@[]").encode())
    return block


class Stream:
    """The server's end of a call (`Call`), and the receiving end of its frames."""

    __slots__ = (
        "_unsent",
        "answered",
        "connection",
        "deadline_s",
        "done",
        "ending",
        "handler",
        "identity",
        "partial",
        "peer_done",
        "received",
        "resting",
        "room",
        "told",
        "window",
        "withheld",
    )

    def __init__(self, connection: "H2Connection", identity: int, window: int, room: int) -> None:
        self.connection = connection
        self.identity = identity
        self.handler: Handler | None = None
        self.window = window
        """What the peer lets us send."""
        self.room = room
        """What we let the peer send."""
        self.withheld = 0
        """Received and not given back as room yet."""
        self.deadline_s = _NEVER
        self.told = -1
        """The content-length; negative: not told."""
        self.received = 0
        self.resting = False
        self.answered = False
        self.peer_done = False
        self.done = False
        self.ending: bytes | None = None
        """The trailers, once the handler has finished the call."""
        # Most calls need neither: their messages are whole in one frame, and their answers fit the windows.
        self.partial: bytearray | None = None
        """Of a message that is not whole."""
        self._unsent: bytearray | None = None

    def send(self, *messages: bytes) -> None:
        if self.done or self.ending is not None or not messages:
            return
        connection, identity, first = self.connection, self.identity, messages[0]
        size = sum(map(len, messages)) + _PREFIX_BYTES * len(messages)
        if size > self.window or size > connection.window or size > connection.largest or self._unsent:
            self._send_later(messages)
            return
        self.window -= size
        connection.window -= size
        output = connection.output
        high, low = size >> 8, size & 0xFF
        if self.answered:
            output.append(_FIRST(high, low, _DATA, 0, identity, 0, len(first)))
        else:
            self.answered = True
            output.append(
                _ANSWER(0, len(HEADERS), _HEADERS, END_HEADERS, identity, HEADERS,
                        high, low, _DATA, 0, identity, 0, len(first))
            )  # fmt: skip
        output.append(first)
        for message in messages[1:]:
            output.append(_PREFIX(0, len(message)))
            output.append(message)
        if not connection.receiving:
            connection.wake()

    def _send_later(self, messages: Sequence[bytes]) -> None:
        """Messages that do not fit the windows, or one frame."""
        if not self.answered:
            self.answered = True
            self.connection.queue(frames.frame(_HEADERS, END_HEADERS, self.identity, HEADERS))
        if self._unsent is None:
            self._unsent = bytearray()
        for message in messages:
            self._unsent += _PREFIX(0, len(message))
            self._unsent += message
        self.push()
        self.connection.wake()

    def finish(self, status: GrpcStatus = GrpcStatus.OK, why: str = "") -> None:
        if self.done or self.ending is not None:
            # Of a call that its peer has reset nothing is sent, but its handler is through with it.
            self.ending = self.ending or b""
            return
        self.ending = trailers(status, why)
        self._end_if_sent()
        self.connection.wake()

    def rest(self) -> None:
        if not self.resting and not self.done:
            self.resting = True
            self.connection.restless -= 1

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent or b"")

    def push(self) -> None:
        """Send what waits, as far as the windows go."""
        connection = self.connection
        unsent = self._unsent or bytearray()
        place = 0
        while place < len(unsent):
            size = min(len(unsent) - place, self.window, connection.window, connection.largest)
            if size <= 0:
                connection.wait(self)
                break
            connection.queue(
                frames.head(FrameType.DATA, 0, self.identity, size), bytes(memoryview(unsent)[place : place + size])
            )
            self.window -= size
            connection.window -= size
            place += size
        del unsent[:place]
        self._end_if_sent()

    def _end_if_sent(self) -> None:
        if self.ending is None or self._unsent or self.done:
            return
        block = self.ending if self.answered else HEADERS + self.ending
        self.connection.queue(
            frames.head(FrameType.HEADERS, END_HEADERS | END_STREAM, self.identity, len(block)), block
        )
        self.connection.ended(self)

    def take(self, data: bytes) -> None:
        """A piece of what the peer sends: complete messages go to the handler."""
        handler = self.handler
        if handler is None:
            return
        if not self.partial and len(data) >= _PREFIX_BYTES and len(data) == _PREFIX_BYTES + self._length(data):
            handler.message(data[_PREFIX_BYTES:])
            return
        if self.partial is None:
            self.partial = bytearray()
        partial = self.partial
        partial += data
        place = 0
        while len(partial) - place >= _PREFIX_BYTES and not self.done:
            end = place + _PREFIX_BYTES + self._length(partial, place)
            if end > len(partial):
                break
            handler.message(bytes(memoryview(partial)[place + _PREFIX_BYTES : end]))
            place = end
        if place:
            # A handler that ends its call has no use for the rest, and a view of it is gone by here.
            del partial[:place]

    def deliver(self, messages: list[bytes]) -> None:
        """Messages to a handler that takes one after the other, up to the end of the call."""
        for message in messages:
            if self.handler is None or self.ending is not None:
                return
            self.handler.message(message)

    def _length(self, data: bytes | bytearray, place: int = 0) -> int:
        length = int.from_bytes(data[place + 1 : place + _PREFIX_BYTES], "big")
        if data[place]:
            raise CallFault(self, GrpcStatus.UNIMPLEMENTED, "compressed messages are not accepted")
        if length > self.connection.limits.message_bytes:
            most = self.connection.limits.message_bytes
            raise CallFault(self, GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {length} bytes; {most} are accepted")
        return length

    def end(self) -> None:
        """The peer has sent all it will."""
        if self.peer_done:
            raise StreamFault(self.identity, ErrorCode.STREAM_CLOSED, "the stream ends twice")
        self.peer_done = True
        if self.told >= 0 and self.told != self.received:
            raise StreamFault(
                self.identity, ErrorCode.PROTOCOL_ERROR, f"content-length {self.told}, but {self.received} bytes came"
            )
        if self.partial:
            raise CallFault(self, GrpcStatus.INTERNAL, "the stream ends in the middle of a message")
        handler = self.handler
        if handler is not None:
            handler.closed()

    def drop(self) -> None:
        """It is over, and not by our own end of the call: whoever served it hears so once."""
        handler, self.handler = self.handler, None
        unfinished = self.ending is None
        self.done = True
        self._unsent = self.partial = None
        if handler is not None and unfinished:
            handler.cancelled()


class CallFault(Exception):  # noqa: N818  a fault of the peer, told by the call's status
    """A rule of gRPC is broken: HTTP/2 is fine, so the call ends with a status."""

    def __init__(self, stream: Stream, status: GrpcStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.stream = stream
        self.status = status
