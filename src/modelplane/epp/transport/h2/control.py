"""Rules for the frames that carry no call: those about the connection, and those about streams as such."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.frames import (
    ACK,
    LARGEST_WINDOW,
    ConnectionFault,
    ErrorCode,
    FrameType,
    Setting,
    StreamFault,
)

if TYPE_CHECKING:
    from modelplane.epp.transport.h2.connection import H2Connection

DRAIN_PING: Final = b"drained?"
"""The peer has seen that we are stopping when it answers this."""


def priority(connection: "H2Connection", _flags: int, identity: int, payload: bytes) -> None:
    connection.spend_trifle()
    if not identity:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a priority of the connection")
    if len(payload) != frames.PRIORITY_BYTES:
        raise StreamFault(identity, ErrorCode.FRAME_SIZE_ERROR, "a priority of the wrong size")


def settings(connection: "H2Connection", flags: int, identity: int, payload: bytes) -> None:
    if identity:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
    if flags & ACK:
        if payload:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings in an acknowledgement")
        connection.decoder.limit(0)
        return
    if len(payload) % frames.SETTING_BYTES:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings of the wrong size")
    if connection.settled:
        connection.spend_trifle()
    connection.settled = True
    for number, value in frames.read_settings(payload):
        _set(connection, number, value)
    connection.queue(frames.SETTINGS_ACK)


def _set(connection: "H2Connection", number: int, value: int) -> None:
    if number == Setting.INITIAL_WINDOW_SIZE:
        if value > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"an initial window of {value}")
        _change_windows(connection, value - connection.first_window)
        connection.first_window = value
    elif number == Setting.MAX_FRAME_SIZE:
        if not frames.LEAST_FRAME_BYTES <= value <= frames.MOST_FRAME_BYTES:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a largest frame of {value}")
        connection.largest = min(value, connection.limits.frame_bytes)
    elif number == Setting.ENABLE_PUSH and value > 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"push set to {value}")


def _change_windows(connection: "H2Connection", by: int) -> None:
    for stream in connection.streams.values():
        stream.window += by
        if stream.window > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the initial window makes a stream's overflow")
    connection.push_waiting()


def push(_connection: "H2Connection", _flags: int, _identity: int, _payload: bytes) -> None:
    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client pushes")


def ping(connection: "H2Connection", flags: int, identity: int, payload: bytes) -> None:
    if identity:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a ping of a stream")
    if len(payload) != frames.PING_BYTES:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping of the wrong size")
    if not flags & ACK:
        connection.spend_trifle()
        connection.queue(frames.frame(FrameType.PING, ACK, 0, payload))
    elif connection.draining and payload == DRAIN_PING:
        connection.drained = True
        connection.last_served = connection.last
        connection.queue(frames.goaway(connection.last, ErrorCode.NO_ERROR, "stopping"))


def goaway(connection: "H2Connection", _flags: int, identity: int, payload: bytes) -> None:
    if identity:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream goes away")
    if len(payload) < frames.GOAWAY_BYTES:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a goaway of the wrong size")
    connection.drained = True


def window(connection: "H2Connection", _flags: int, identity: int, payload: bytes) -> None:
    if len(payload) != frames.WINDOW_BYTES:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a window update of the wrong size")
    increment = int.from_bytes(payload, "big") & LARGEST_WINDOW
    if not identity:
        _widen(connection, increment)
        return
    connection.check_opened(identity)
    stream = connection.streams.get(identity)
    if not increment:
        raise StreamFault(identity, ErrorCode.PROTOCOL_ERROR, "a window grows by nothing")
    if stream is None:
        return
    stream.window += increment
    if stream.window > LARGEST_WINDOW:
        raise StreamFault(identity, ErrorCode.FLOW_CONTROL_ERROR, "a window overflows")
    if stream.unsent_bytes:
        connection.push(stream)
    else:
        connection.spend_trifle()


def _widen(connection: "H2Connection", increment: int) -> None:
    if not increment:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the connection's window grows by nothing")
    connection.window += increment
    if connection.window > LARGEST_WINDOW:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window overflows")
    if connection.waiting:
        connection.push_waiting()
    else:
        connection.spend_trifle()


RULES: Final[dict[int, Callable[["H2Connection", int, int, bytes], None]]] = {
    FrameType.PRIORITY: priority,
    FrameType.SETTINGS: settings,
    FrameType.PUSH_PROMISE: push,
    FrameType.PING: ping,
    FrameType.GOAWAY: goaway,
    FrameType.WINDOW_UPDATE: window,
}
"""By type of frame."""
