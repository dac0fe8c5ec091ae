"""The frames that carry no call: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, PRIORITY and PUSH_PROMISE."""

from typing import Final

from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.flood_guard import FloodGuard
from modelplane.epp.transport.h2.frames import (
    ACK,
    LARGEST_WINDOW,
    ErrorCode,
    FrameType,
    H2ConnectionError,
    H2StreamError,
    Setting,
)
from modelplane.epp.transport.h2.hpack import Decoder
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.h2.outbound import SendQueue
from modelplane.epp.transport.h2.stream_table import StreamTable

_DRAIN_PING: Final = b"drained?"
"""The ping of a drain: its acknowledgement shows that the peer received GOAWAY."""
_PRIORITY: Final = int(FrameType.PRIORITY)
_SETTINGS: Final = int(FrameType.SETTINGS)
_PING: Final = int(FrameType.PING)
_GOAWAY: Final = int(FrameType.GOAWAY)
_WINDOW_UPDATE: Final = int(FrameType.WINDOW_UPDATE)


class Control:
    """Both sides' settings, and how far the connection is on its way to an end."""

    __slots__ = ("_decoder", "_drained", "_draining", "_guard", "_limits", "_outbound", "_settled", "_streams")

    def __init__(
        self, limits: H2Limits, outbound: SendQueue, streams: StreamTable, decoder: Decoder, guard: FloodGuard
    ) -> None:
        self._limits = limits
        self._outbound = outbound
        self._streams = streams
        self._decoder = decoder
        self._guard = guard
        self._settled = False
        self._draining = False
        self._drained = False

    @property
    def is_settled(self) -> bool:
        """Whether the peer's settings came."""
        return self._settled

    @property
    def is_draining(self) -> bool:
        return self._draining

    @property
    def is_drained(self) -> bool:
        """Whether the peer opens no more streams."""
        return self._drained

    def send_settings(self) -> None:
        limits = self._limits
        self._outbound.queue(
            frames.settings(
                {
                    Setting.HEADER_TABLE_SIZE: 0,
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
                    Setting.MAX_FRAME_SIZE: limits.frame_bytes,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_list_bytes,
                }
            )
        )
        if limits.connection_window > frames.FIRST_WINDOW:
            self._outbound.queue(frames.window_update(0, limits.connection_window - frames.FIRST_WINDOW))

    def drain(self) -> None:
        """Announce that we are stopping, once.

        The peer may have opened streams that are on their way; it has seen the announcement when it answers the ping.
        """
        if self._draining:
            return
        self._draining = True
        self._outbound.queue(frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR, "stopping"))
        self._outbound.queue(frames.frame(FrameType.PING, 0, 0, _DRAIN_PING))
        self._outbound.notify()

    def receive(self, kind: int, flags: int, stream_id: int, payload: bytes, now_s: float) -> None:
        """A frame of one of these types."""
        if kind == _WINDOW_UPDATE:
            self._on_window_update(stream_id, payload)
        elif kind == _SETTINGS:
            self._on_settings(flags, stream_id, payload, now_s)
        elif kind == _PING:
            self._on_ping(flags, stream_id, payload, now_s)
        elif kind == _GOAWAY:
            self._on_goaway(stream_id, payload)
        elif kind == _PRIORITY:
            self._on_priority(stream_id, payload, now_s)
        else:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "a client pushes")

    def _on_priority(self, stream_id: int, payload: bytes, now_s: float) -> None:
        self._guard.spend_no_op(now_s)
        if not stream_id:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "a priority of the connection")
        if len(payload) != frames.PRIORITY_BYTES:
            raise H2StreamError(stream_id, ErrorCode.FRAME_SIZE_ERROR, "a priority of the wrong size")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes, now_s: float) -> None:
        if stream_id:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if flags & ACK:
            if payload:
                raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "settings in an acknowledgement")
            self._decoder.limit(0)
            return
        if len(payload) % frames.SETTING_BYTES:
            raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "settings of the wrong size")
        if self._settled:
            self._guard.spend_no_op(now_s)
        self._settled = True
        for number, value in frames.read_settings(payload):
            self._set(number, value)
        self._outbound.queue(frames.SETTINGS_ACK)

    def _set(self, number: int, value: int) -> None:
        if number == Setting.INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise H2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, f"an initial window of {value}")
            self._streams.set_initial_window(value)
        elif number == Setting.MAX_FRAME_SIZE:
            if not frames.LEAST_FRAME_BYTES <= value <= frames.MOST_FRAME_BYTES:
                raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"a largest frame of {value}")
            self._outbound.limit_frames(min(value, self._limits.frame_bytes))
        elif number == Setting.ENABLE_PUSH and value > 1:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"push set to {value}")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes, now_s: float) -> None:
        if stream_id:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "a ping of a stream")
        if len(payload) != frames.PING_BYTES:
            raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "a ping of the wrong size")
        if not flags & ACK:
            self._guard.spend_no_op(now_s)
            self._outbound.queue(frames.frame(FrameType.PING, ACK, 0, payload))
        elif self._draining and payload == _DRAIN_PING:
            self._drained = True
            self._streams.accept_no_more()
            self._outbound.queue(frames.goaway(self._streams.last, ErrorCode.NO_ERROR, "stopping"))

    def _on_goaway(self, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < frames.GOAWAY_BYTES:
            raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "a goaway of the wrong size")
        self._drained = True

    def _on_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != frames.WINDOW_BYTES:
            raise H2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "a window update of the wrong size")
        increment = int.from_bytes(payload, "big") & LARGEST_WINDOW
        if stream_id:
            self._streams.widen(stream_id, increment)
        else:
            self._streams.widen_all(increment)
