"""The streams of a connection: those that are open, and those that are closed only here."""

from modelplane.epp.transport.calls import GrpcStatus
from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.closed_streams import ClosedStreams
from modelplane.epp.transport.h2.flood_guard import FloodGuard
from modelplane.epp.transport.h2.frames import FIRST_WINDOW, ErrorCode, H2ConnectionError, H2StreamError
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.h2.outbound import SendQueue
from modelplane.epp.transport.h2.stream import Stream, StreamOwner


class StreamTable(StreamOwner):
    """The open streams of a connection by their identifiers, and those that are closed only here."""

    __slots__ = (
        "_active",
        "_closed",
        "_free_resets",
        "_guard",
        "_initial_window",
        "_last",
        "_last_accepted",
        "_limits",
        "_message_bytes",
        "_most",
        "_now_s",
        "_outbound",
        "_receive_window",
        "_streams",
        "_update_at",
        "_waiting",
    )

    def __init__(self, limits: H2Limits, outbound: SendQueue, guard: FloodGuard, now_s: float) -> None:
        self._limits = limits
        self._outbound = outbound
        self._guard = guard
        self._now_s = now_s
        self._message_bytes = limits.message_bytes
        self._most = limits.streams
        self._receive_window = limits.stream_window
        self._update_at = (limits.stream_window + 1) // 2
        self._initial_window = FIRST_WINDOW
        self._streams: dict[int, Stream] = {}
        self._waiting: dict[int, Stream] = {}
        self._closed = ClosedStreams()
        self._active = 0
        self._last = 0
        self._last_accepted = frames.LAST_STREAM
        self._free_resets = 0
        """Resets of streams that both sides have ended: some peers send one after each call, which is allowed."""

    @property
    def count(self) -> int:
        return len(self._streams)

    def get(self, stream_id: int) -> Stream | None:
        return self._streams.get(stream_id)

    @property
    def active(self) -> int:
        """Open streams that are not marked idle."""
        return self._active

    @property
    def held_bytes(self) -> int:
        return sum([stream.held_bytes for stream in self._streams.values()])

    @property
    def last(self) -> int:
        """The highest identifier that the peer has used."""
        return self._last

    @property
    def message_bytes(self) -> int:
        return self._message_bytes

    @property
    def update_at(self) -> int:
        """How much of a stream's receive window is used when it is given back."""
        return self._update_at

    @property
    def is_over(self) -> bool:
        """Whether nothing is open: to close while the peer still sends can cost it what it has not read yet."""
        return not self._streams and not self._closed.any_linger

    # How streams begin.

    def note(self, stream_id: int) -> bool:
        """The peer uses an identifier. Whether it is a new one."""
        if stream_id <= self._last:
            return False
        self._last = stream_id
        return True

    def is_refused(self, stream_id: int) -> bool:
        """Whether it was opened after the last stream of our GOAWAY."""
        return stream_id > self._last_accepted

    def try_open(self, stream_id: int) -> Stream | None:
        """A stream of an identifier that was not noted. None, and nothing has happened: it breaks a rule."""
        if not self._last < stream_id <= self._last_accepted or not stream_id & 1 or len(self._streams) >= self._most:
            return None
        self._last = stream_id
        return self.open(stream_id)

    def open(self, stream_id: int) -> Stream:
        """A stream of an identifier that was noted."""
        if len(self._streams) >= self._most:
            raise H2StreamError(stream_id, ErrorCode.REFUSED_STREAM, "too many streams")
        stream = Stream(self, self._outbound, stream_id, self._initial_window, self._receive_window)
        self._streams[stream_id] = stream
        self._active += 1
        return stream

    def accept_no_more(self) -> None:
        self._last_accepted = self._last

    # Called by streams.

    def on_idle(self) -> None:
        self._active -= 1

    def wait(self, stream_id: int, stream: Stream) -> None:
        self._waiting[stream_id] = stream

    def on_local_end(self, stream_id: int, *, remote_closed: bool) -> None:
        """Our end of the stream is sent. The peer may end its own: some take a reset at this moment for a failure."""
        if remote_closed:
            self._free_resets += 1
        else:
            oldest = self._closed.linger(stream_id, self._now_s)
            if oldest:
                self._stop(oldest)

    def remove(self, stream_id: int, *, idle: bool) -> None:
        if self._streams.pop(stream_id, None) is not None and not idle:
            self._active -= 1
        if self._waiting:
            self._waiting.pop(stream_id, None)

    def _stop(self, stream_id: int) -> None:
        """Reset a stream whose peer still sends after its end."""
        self._outbound.queue(frames.reset(stream_id, ErrorCode.NO_ERROR))
        self._closed.reset(stream_id)

    # Time.

    def set_time(self, now_s: float) -> None:
        self._now_s = now_s

    def tick(self, now_s: float) -> None:
        """Calls beyond their deadline end, and so do streams that their peers do not end."""
        self._now_s = now_s
        for stream in [stream for stream in self._streams.values() if stream.is_overdue(now_s)]:
            stream.give_up(GrpcStatus.DEADLINE_EXCEEDED, "the time that the caller gave is over")
        for stream_id in self._closed.overdue(now_s):
            self._stop(stream_id)

    # Frames of the peer for streams.

    def check_opened(self, stream_id: int) -> None:
        if not stream_id or stream_id > self._last or not stream_id % 2:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"a frame for stream {stream_id}, which was never opened")

    def check_late_data(self, stream_id: int, *, ends: bool) -> None:
        """DATA of a stream that the peer cannot send on. What was on its way when we ended it is dropped."""
        self.check_opened(stream_id)
        if self._closed.lingers(stream_id):
            if ends:
                self._closed.ended(stream_id)
        elif stream_id not in self._streams and self._closed.was_reset(stream_id):
            self._guard.spend_no_op(self._now_s)
        else:
            raise H2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "data after the end")

    def check_late_headers(self, stream_id: int) -> None:
        """The same for HEADERS."""
        if not self._closed.was_reset(stream_id) and not self._closed.ended(stream_id):
            raise H2ConnectionError(ErrorCode.STREAM_CLOSED, f"headers on stream {stream_id}, which is closed")

    def on_reset(self, stream_id: int) -> None:
        """The peer resets a stream. Of one that is over every call earns one reset; more is a way to keep us busy."""
        self.check_opened(stream_id)
        stream = self._streams.get(stream_id)
        if stream is not None:
            if not stream.is_started:
                self._guard.spend_reset(self._now_s)
            stream.drop()
        elif not self._closed.ended(stream_id) and self._free_resets:
            self._free_resets -= 1
        else:
            self._guard.spend_no_op(self._now_s)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """A stream error: reset the stream and cancel its handler. It counts as a frame without effect."""
        self._guard.spend_no_op(self._now_s)
        self._outbound.queue(frames.reset(stream_id, code))
        self._closed.reset(stream_id)
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.drop()

    def drop_all(self) -> None:
        self._closed.clear()
        streams, self._streams = self._streams, {}
        self._active = 0
        self._waiting.clear()
        for stream in streams.values():
            stream.drop()

    # Windows.

    def set_initial_window(self, size: int) -> None:
        """The peer's SETTINGS_INITIAL_WINDOW_SIZE, which changes the windows of open streams, too."""
        by, self._initial_window = size - self._initial_window, size
        for stream in self._streams.values():
            if not stream.widen(by):
                raise H2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "the initial window makes a stream's overflow")
        self._push_waiting()

    def widen(self, stream_id: int, increment: int) -> None:
        """A WINDOW_UPDATE of a stream."""
        self.check_opened(stream_id)
        if not increment:
            raise H2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "a window grows by nothing")
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if not stream.widen(increment):
            raise H2StreamError(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a window overflows")
        if stream.is_blocked:
            self._push(stream)
        else:
            self._guard.spend_no_op(self._now_s)

    def widen_all(self, increment: int) -> None:
        """A WINDOW_UPDATE of the connection."""
        if not increment:
            raise H2ConnectionError(ErrorCode.PROTOCOL_ERROR, "the connection's window grows by nothing")
        self._outbound.widen(increment)
        if self._waiting:
            self._push_waiting()
        else:
            self._guard.spend_no_op(self._now_s)

    def _push_waiting(self) -> None:
        """Send for blocked streams in turn; one that is still blocked comes last the next time."""
        waiting, self._waiting = self._waiting, {}
        for stream_id, stream in waiting.items():
            if stream.is_closed:
                continue
            if self._outbound.is_blocked:
                self.wait(stream_id, stream)
            else:
                self._push(stream)

    def _push(self, stream: Stream) -> None:
        stream.push()
        if not stream.is_closed:
            self.update_window(stream)

    def update_window(self, stream: Stream) -> None:
        stream.update_window(self._update_at, self._limits.unsent_bytes)
