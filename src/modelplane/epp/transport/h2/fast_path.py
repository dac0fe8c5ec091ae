"""Calls as nearly all of them are, dealt with in one go.

A call begins with a header block that was met before, and its first messages come with it, each whole in a frame of its
own; so do later ones. It ends with an empty frame, after which Envoy resets the stream. All this is recognised among
the bytes that came and costs less than half of what the rules do frame by frame; everything else, and everything that
breaks a rule, is left to the rules (`connection`), which would come to the same. The one difference is that a stream
which is reset right after its end gets no trailers: nobody would read them.
"""

import logging
import struct
from typing import TYPE_CHECKING, Final

from modelplane.epp.transport.calls import TakesSeveral
from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.frames import END_HEADERS, END_STREAM, HEADER_BYTES, FrameType
from modelplane.epp.transport.h2.stream import Stream

if TYPE_CHECKING:
    from modelplane.epp.transport.h2.connection import H2Connection

_LOG = logging.getLogger(__name__)
_RESET: Final = int(FrameType.RST_STREAM)
_PREFIX_BYTES: Final = 5
_FULL_RESET_BYTES: Final = HEADER_BYTES + frames.RESET_BYTES
_read_prefix: Final = struct.Struct(">BI").unpack_from
_read_message_head: Final = struct.Struct(">HBHIBI").unpack_from
"""Of a frame that begins with a message: its length, its type and flags in one, its stream; the message's prefix."""


def try_begin(connection: "H2Connection", identity: int, data: bytes, begin: int, place: int) -> int:
    """A call whose header block is at hand. Where what comes next begins; 0: it is something else."""
    usual = connection.usual.get(data[begin:place])
    if usual is None or identity <= connection.last or not identity & 1 or connection.block is not None:
        return 0
    limits, streams = connection.limits, connection.streams
    if identity > connection.last_served or len(streams) >= limits.streams:
        return 0
    connection.last = identity
    stream = streams[identity] = Stream(connection, identity, connection.first_window, limits.stream_window)
    connection.restless += 1
    make, timeout_s = usual
    if timeout_s >= 0.0:
        stream.deadline_s = connection.now_s + timeout_s
    messages, end = _whole_messages(connection, identity, data, place)
    size = end - place - HEADER_BYTES * len(messages)
    stream.room -= size
    stream.withheld = stream.received = size
    connection.room -= size
    connection.withheld += size
    try:
        stream.handler = handler = make(stream)
        if isinstance(handler, TakesSeveral) and messages:
            handler.messages(messages)
        else:
            stream.deliver(messages)
    except Exception:  # noqa: BLE001  one call's defect must not end the calls of every other client
        connection.failed(stream)
    return end


def _whole_messages(connection: "H2Connection", identity: int, data: bytes, place: int) -> tuple[list[bytes], int]:
    """Messages of a stream from a place on, and where they end: up to what fills a window so far that room is given."""
    messages: list[bytes] = []
    room = min(connection.much_of_one, connection.much - connection.withheld, connection.room)
    most = len(data) - HEADER_BYTES - _PREFIX_BYTES
    while place <= most:
        high, low, kind, stream, compressed, length = _read_message_head(data, place)
        size = high << 8 | low
        end = place + HEADER_BYTES + size
        room -= size
        if kind or stream != identity or compressed or length != size - _PREFIX_BYTES:
            break
        if size > connection.most_in_one or end > len(data) or room <= 0:
            break
        messages.append(data[place + HEADER_BYTES + _PREFIX_BYTES : end])
        place = end
    return messages, place


def try_message(connection: "H2Connection", identity: int, data: bytes, begin: int, end: int) -> int:
    """A message of an open call that is whole in its frame. Where what comes next begins; 0: it is something else."""
    stream = connection.streams.get(identity)
    size = end - begin
    if (
        stream is None
        or stream.peer_done
        or stream.partial
        or stream.ending is not None
        or connection.block is not None
    ):
        return 0
    if not _PREFIX_BYTES <= size <= connection.most_in_one:
        return 0
    compressed, length = _read_prefix(data, begin)
    withheld, room = stream.withheld + size, min(stream.room, connection.room)
    if compressed or length != size - _PREFIX_BYTES or size > room or withheld >= connection.much_of_one:
        return 0
    handler = stream.handler
    if handler is None or connection.withheld + size >= connection.much:
        return 0
    stream.room -= size
    stream.withheld = withheld
    stream.received += size
    connection.room -= size
    connection.withheld += size
    try:
        handler.message(data[begin + _PREFIX_BYTES : end])
    except Exception:  # noqa: BLE001  as above
        connection.failed(stream)
    return end


def try_end(connection: "H2Connection", identity: int, data: bytes, begin: int, place: int) -> int:
    """The end of a call and a reset right after it. Where what comes next begins; 0: it is something else."""
    end = place + _FULL_RESET_BYTES
    stream = connection.streams.get(identity)
    if stream is None or begin != place or end > len(data) or connection.block is not None:
        return 0
    high, low, kind, _flags, other = frames.read_head(data, place)
    if kind != _RESET or other != identity or high or low != frames.RESET_BYTES:
        return 0
    if stream.peer_done or not stream.answered or stream.partial or stream.told >= 0:
        return 0
    handler, stream.handler = stream.handler, None
    stream.peer_done = stream.done = True
    connection.remove(stream)
    if handler is not None:
        try:
            handler.closed()
            if stream.ending is None:
                handler.cancelled()
        except Exception:  # noqa: BLE001  as above
            _LOG.exception("a handler failed")
    return end


ATTEMPTS: Final = {
    FrameType.DATA << 8: try_message,
    FrameType.DATA << 8 | END_STREAM: try_end,
    FrameType.HEADERS << 8 | END_HEADERS: try_begin,
}
"""By type and flags of a frame: where the usual may begin. All of them take the frame's stream and place."""
