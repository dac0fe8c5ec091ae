"""One HTTP/2 connection of a gRPC server, without IO: bytes in, calls of handlers, bytes out.

`receive` takes what came and never raises: a peer that breaks a rule of RFC 9113 gets the stream or connection error
that the rule asks for, and whatever a handler raises ends its own call only. What is to be written gathers in the
connection; `take_output` hands it over. The clock is an argument.

What bounds memory: a frame and a header block have a largest size; a message has one; a stream takes in no more than
its window while its peer does not read what it was sent; streams are counted. What bounds work: resets and frames that
change nothing are paid from a bucket that refills slowly (`Patience`), because each costs the peer less than us.
"""

import logging
from collections.abc import Callable
from typing import Final

from modelplane.epp.transport.calls import GrpcStatus, MakeHandler, Methods
from modelplane.epp.transport.h2 import control, frames, hpack
from modelplane.epp.transport.h2 import fast_path as usual
from modelplane.epp.transport.h2.closed_streams import Departed
from modelplane.epp.transport.h2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    HEADER_BYTES,
    LARGEST_WINDOW,
    PADDED,
    PRIORITISED,
    ConnectionFault,
    ErrorCode,
    FrameType,
    Setting,
    StreamFault,
)
from modelplane.epp.transport.h2.limits import H2Limits, Patience
from modelplane.epp.transport.h2.opening import Opening, judge, trailers_malformed
from modelplane.epp.transport.h2.reader import FrameReader
from modelplane.epp.transport.h2.stream import CallFault, Stream

_LOG = logging.getLogger(__name__)
_MOST_OPENINGS: Final = 256
_DATA: Final = int(FrameType.DATA)
_HEADERS: Final = int(FrameType.HEADERS)
_RESET: Final = int(FrameType.RST_STREAM)
_SETTINGS: Final = int(FrameType.SETTINGS)
_CONTINUATION: Final = int(FrameType.CONTINUATION)
_PREFIX_BYTES: Final = 5


class H2Connection:
    """The server's side. `wake` is called when there is output that nobody asked for by `receive`."""

    def __init__(
        self, methods: Methods, limits: H2Limits, *, now_s: float, on_output: Callable[[], None] = lambda: None
    ) -> None:
        self.limits = limits
        self.window = FIRST_WINDOW
        self.largest = frames.LEAST_FRAME_BYTES
        self.closing = False
        """Nothing more is read; once the output is written the connection can go."""
        self.streams: dict[int, Stream] = {}
        self.restless = 0
        """Streams that somebody waits for: all but those that rest."""
        self._methods = methods
        self._on_output = on_output
        self.now_s = now_s
        self.output: list[bytes] = []
        self.receiving = False
        self._reader = FrameReader()
        self._largest = limits.frame_bytes
        self.settled = False
        self._since_s = now_s
        """Since when the peer owes us the rest of something."""
        self.decoder = hpack.Decoder(limits.header_list_bytes)
        self._openings: dict[bytes, Opening] = {}
        """By blocks that mean the same whenever they come."""
        self.usual: dict[bytes, tuple[MakeHandler, float]] = {}
        """Those among them that begin a call without ado: who serves it, and the seconds that the caller gives."""
        self.most_in_one = min(limits.frame_bytes, limits.message_bytes + _PREFIX_BYTES)
        self.block: tuple[int, int, bytearray] | None = None
        self.last = 0
        self.first_window = FIRST_WINDOW
        self.room = limits.connection_window
        self.withheld = 0
        self.much = (limits.connection_window + 1) // 2
        self.much_of_one = (limits.stream_window + 1) // 2
        """Of the connection's window, and of a stream's: what is given back at once."""
        self.waiting: dict[int, Stream] = {}
        self._departed = Departed()
        self._forgiven = 0
        """Resets of streams that both sides have ended: some peers send one after each call, and it is no offence."""
        self.last_served = frames.LAST_STREAM
        self.draining = False
        self.drained = False
        """The peer opens no more streams."""
        self._resets = Patience(limits.resets, now_s)
        self._trifles = Patience(limits.trifles, now_s)
        self._greet()

    # What the driver calls.

    def receive(self, data: bytes, now_s: float) -> None:
        """Bytes from the peer."""
        if self.closing:
            return
        self.now_s = now_s
        self.receiving = True
        try:
            self._read(data)
        except ConnectionFault as fault:
            self.abort(fault.code, str(fault))
        finally:
            self.receiving = False
        if self.drained:
            self._close_if_drained()

    def take_output(self) -> bytes:
        """Everything that is to be written."""
        output, self.output = self.output, []
        return b"".join(output)

    @property
    def dozes(self) -> bool:
        """Whether nothing is awaited but ends of calls that rest, and new calls."""
        return not self.restless and not self._reader.held_bytes and self.settled and not self.draining

    def tick(self, now_s: float) -> None:
        """Let time pass: calls beyond their deadline end, and a peer that stalls is given up."""
        self.now_s = now_s
        for stream in [stream for stream in self.streams.values() if stream.deadline_s <= now_s]:
            self._give_up(stream, GrpcStatus.DEADLINE_EXCEEDED, "the time that the caller gave is over")
        for identity in self._departed.overdue(now_s):
            self._hush(identity)
        self._close_if_drained()
        limit_s = self.limits.stall_s if self.settled else self.limits.begin_s
        if (self._reader.held_bytes or self.block or not self.settled) and now_s - self._since_s > limit_s:
            self.abort(ErrorCode.ENHANCE_YOUR_CALM, f"nothing complete came within {limit_s:g} s")

    def drain(self) -> None:
        """Take no new streams and close once the open ones have ended.

        The peer may have opened streams that are on their way; it has seen the announcement when it answers the ping.
        """
        if self.draining or self.closing:
            return
        self.draining = True
        self.queue(frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR, "stopping"))
        self.queue(frames.frame(FrameType.PING, 0, 0, control.DRAIN_PING))
        self.wake()

    def abort(self, code: ErrorCode, sentence: str) -> None:
        """Give the connection up, and every call with it."""
        if self.closing:
            return
        self.queue(frames.goaway(self.last, code, sentence))
        self.lose()
        self.wake()

    def lose(self) -> None:
        """The connection is gone, or as good as that."""
        self.closing = True
        self._reader.drop()
        self._departed.clear()
        streams, self.streams = self.streams, {}
        self.restless = 0
        self.waiting.clear()
        for stream in streams.values():
            self._quietly(stream.drop)

    # What streams call.

    def queue(self, *parts: bytes) -> None:
        self.output.extend(parts)

    def wake(self) -> None:
        if not self.receiving:
            self._on_output()

    def wait(self, stream: Stream) -> None:
        """The stream has more to send than the windows let through."""
        self.waiting[stream.identity] = stream

    def ended(self, stream: Stream) -> None:
        """Our end of the stream is sent. The peer may end its own: some take a reset at this moment for a failure."""
        stream.done = True
        # A handler holds its call: without this, each call would stay until garbage is collected.
        stream.handler = None
        if stream.peer_done:
            self._forgiven += 1
        else:
            oldest = self._departed.linger(stream.identity, self.now_s)
            if oldest:
                self._hush(oldest)
        self.remove(stream)

    def _hush(self, identity: int) -> None:
        """A peer that still sends for a call that is over is told to stop."""
        self.queue(frames.reset(identity, ErrorCode.NO_ERROR))
        self._departed.reset(identity)

    # Frames.

    def _greet(self) -> None:
        limits = self.limits
        self.queue(
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
        if limits.connection_window > FIRST_WINDOW:
            self.queue(frames.window_update(0, limits.connection_window - FIRST_WINDOW))

    def _read(self, data: bytes) -> None:
        reader = self._reader
        if not reader.plain:
            data = reader.join(data)
        place, size, largest, now_s = 0, len(data), self._largest, self.now_s
        while size - place >= HEADER_BYTES:
            high, low, kind, flags, identity = frames.read_head(data, place)
            begin = place + HEADER_BYTES
            end = begin + (high << 8 | low)
            if end - begin > largest:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {end - begin} bytes")
            if end > size:
                break
            self._since_s = now_s
            identity &= LARGEST_WINDOW
            attempt = usual.ATTEMPTS.get(kind << 8 | flags)
            place = 0 if attempt is None else attempt(self, identity, data, begin, end)
            if not place:
                self._frame(kind, flags, identity, data[begin:end])
                if self.closing:
                    return
                place = end
        if place < size:
            reader.hold(data[place:])

    def _frame(self, kind: int, flags: int, identity: int, payload: bytes) -> None:
        if self.block is not None and kind != _CONTINUATION:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "another frame inside a header block")
        if not self.settled and (kind != _SETTINGS or flags & ACK):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind > _CONTINUATION:
            self.spend_trifle()
            return
        try:
            self._obey(kind, flags, identity, payload)
        except StreamFault as fault:
            self._reset(fault.stream, fault.code)
        except CallFault as defect:
            self._give_up(defect.stream, defect.status, str(defect))

    def _obey(self, kind: int, flags: int, identity: int, payload: bytes) -> None:
        if kind == _DATA:
            self._on_data(flags, identity, payload)
        elif kind == _HEADERS:
            self._on_headers(flags, identity, payload)
        elif kind == _RESET:
            self._on_reset(flags, identity, payload)
        elif kind == _CONTINUATION:
            self._on_continuation(flags, identity, payload)
        else:
            control.RULES[kind](self, flags, identity, payload)

    def _on_data(self, flags: int, identity: int, payload: bytes) -> None:
        size = len(payload)
        self._take_room(size)
        stream = self.streams.get(identity)
        if stream is None or stream.peer_done:
            self._closed(identity, stream, ends=bool(flags & END_STREAM))
            return
        if flags & PADDED:
            payload = _unpad(payload)
        stream.room -= size
        if stream.room < 0:
            raise StreamFault(identity, ErrorCode.FLOW_CONTROL_ERROR, "more than the stream's window")
        stream.withheld += size
        stream.received += len(payload)
        if payload:
            try:
                stream.take(payload)
            except (CallFault, StreamFault):
                raise
            except Exception:  # noqa: BLE001  as in _guarded, without a call that each message would pay for
                self.failed(stream)
        elif not flags & END_STREAM:
            self.spend_trifle()
        if stream.done:
            return
        if flags & END_STREAM:
            self._guarded(stream, stream.end)
        else:
            self._give_room(stream)

    def _on_headers(self, flags: int, identity: int, payload: bytes) -> None:
        if not identity % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a client opens stream {identity}")
        if flags & PADDED:
            payload = _unpad(payload)
        if flags & PRIORITISED:
            if len(payload) < frames.PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "headers too short for their priority")
            payload = payload[frames.PRIORITY_BYTES :]
        if flags & END_HEADERS:
            self._headers(flags, identity, payload)
        else:
            self.block = (flags, identity, bytearray(payload))

    def _on_continuation(self, flags: int, identity: int, payload: bytes) -> None:
        block = self.block
        if block is None or block[1] != identity:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        if not payload:
            self.spend_trifle()
        gathered = block[2]
        gathered += payload
        if len(gathered) > self.limits.header_block_bytes:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of more than {len(gathered)} bytes")
        if flags & END_HEADERS:
            self.block = None
            self._headers(block[0], identity, bytes(gathered))

    def _headers(self, flags: int, identity: int, block: bytes) -> None:
        """A whole header block: it begins a stream or ends one."""
        opening = self._openings.get(block) if identity > self.last else None
        if opening is not None:
            self.last = identity
            self._open(identity, opening, ends=bool(flags & END_STREAM))
            return
        try:
            headers = self.decoder.read(block)
        except hpack.HpackError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        except hpack.TooLongError as excess:
            self.last = max(self.last, identity)
            raise StreamFault(identity, ErrorCode.ENHANCE_YOUR_CALM, str(excess)) from excess
        if identity > self.last:
            self.last = identity
            opening = judge(headers)
            if self.decoder.remembers(block) and len(self._openings) < _MOST_OPENINGS:
                self._openings[block] = opening
                self._remember(block, opening)
            self._open(identity, opening, ends=bool(flags & END_STREAM))
            return
        stream = self.streams.get(identity)
        if stream is None:
            if not self._departed.was_reset(identity) and not self._departed.ended(identity):
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"headers on stream {identity}, which is closed")
            return
        if stream.peer_done:
            raise StreamFault(identity, ErrorCode.STREAM_CLOSED, "headers after the end")
        if not flags & END_STREAM or trailers_malformed(headers):
            raise StreamFault(identity, ErrorCode.PROTOCOL_ERROR, "trailers that are malformed or end nothing")
        self._guarded(stream, stream.end)

    def _remember(self, block: bytes, opening: Opening) -> None:
        make = self._methods.get(opening.path)
        if make is not None and not opening.malformed and not opening.refused and opening.length < 0:
            self.usual[block] = (make, opening.timeout_s)

    def _open(self, identity: int, opening: Opening, *, ends: bool) -> None:
        if identity > self.last_served:
            return
        if opening.malformed:
            raise StreamFault(identity, ErrorCode.PROTOCOL_ERROR, opening.malformed)
        if len(self.streams) >= self.limits.streams:
            raise StreamFault(identity, ErrorCode.REFUSED_STREAM, "too many streams")
        stream = Stream(self, identity, self.first_window, self.limits.stream_window)
        stream.told = opening.length
        self.streams[identity] = stream
        self.restless += 1
        if opening.refused:
            stream.peer_done = ends
            self._refuse(stream, opening.refused)
            return
        make = self._methods.get(opening.path)
        if make is None:
            stream.peer_done = ends
            stream.finish(GrpcStatus.UNIMPLEMENTED, f"no method {opening.path}")
            return
        if opening.timeout_s >= 0:
            stream.deadline_s = self.now_s + opening.timeout_s
        stream.handler = make(stream)
        if ends:
            self._guarded(stream, stream.end)

    def _refuse(self, stream: Stream, status: int) -> None:
        block = b"\x08" + bytes((3,)) + str(status).encode()
        self.queue(frames.frame(FrameType.HEADERS, END_HEADERS | END_STREAM, stream.identity, block))
        self.ended(stream)

    def _on_reset(self, _flags: int, identity: int, payload: bytes) -> None:
        if len(payload) != frames.RESET_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a reset of the wrong size")
        self.check_opened(identity)
        stream = self.streams.get(identity)
        if stream is None:
            self._reset_again(identity)
            return
        if not stream.answered and not self._resets.try_spend(self.now_s):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are given up")
        self.remove(stream)
        self._quietly(stream.drop)

    def _reset_again(self, identity: int) -> None:
        """A stream that is over is reset. What every call earns once is not charged; more is a way to keep us busy."""
        lingered = self._departed.ended(identity)
        if self._forgiven and not lingered:
            self._forgiven -= 1
        else:
            self.spend_trifle()

    # The rest of the rules.

    def push_waiting(self) -> None:
        """Let streams that wait have their turn; one that still waits stands last the next time."""
        waiting, self.waiting = self.waiting, {}
        for stream in waiting.values():
            if stream.done:
                continue
            if self.window > 0:
                self.push(stream)
            else:
                self.wait(stream)

    def push(self, stream: Stream) -> None:
        stream.push()
        if not stream.done:
            self._give_room(stream)

    def _take_room(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the connection's window")
        self.withheld += size
        if self.withheld >= self.much:
            self.queue(frames.window_update(0, self.withheld))
            self.room += self.withheld
            self.withheld = 0

    def _give_room(self, stream: Stream) -> None:
        """Let the peer send on, unless it does not read what it was sent."""
        if stream.withheld < self.much_of_one or stream.unsent_bytes > self.limits.unsent_bytes:
            return
        self.queue(frames.window_update(stream.identity, stream.withheld))
        stream.room += stream.withheld
        stream.withheld = 0

    def _closed(self, identity: int, stream: Stream | None, *, ends: bool) -> None:
        """Data for a stream that is not open. What was on its way when we ended it is dropped."""
        self.check_opened(identity)
        if self._departed.lingers(identity):
            if ends:
                self._departed.ended(identity)
            return
        if stream is None and self._departed.was_reset(identity):
            self.spend_trifle()
            return
        raise StreamFault(identity, ErrorCode.STREAM_CLOSED, "data after the end")

    def check_opened(self, identity: int) -> None:
        if not identity or identity > self.last or not identity % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a frame for stream {identity}, which was never opened")

    def spend_trifle(self) -> None:
        if not self._trifles.try_spend(self.now_s):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that change nothing")

    def _reset(self, identity: int, code: ErrorCode) -> None:
        """A stream error: tell the peer, and whoever served it. Causing errors is no way to keep us busy either."""
        self.spend_trifle()
        self.queue(frames.reset(identity, code))
        self._departed.reset(identity)
        stream = self.streams.get(identity)
        if stream is not None:
            self.remove(stream)
            self._quietly(stream.drop)

    def _give_up(self, stream: Stream, status: GrpcStatus, sentence: str) -> None:
        """End a call that its handler has not ended."""
        handler, stream.handler = stream.handler, None
        stream.finish(status, sentence)
        if handler is not None:
            self._quietly(handler.cancelled)

    def remove(self, stream: Stream) -> None:
        if self.streams.pop(stream.identity, None) is not None and not stream.resting:
            self.restless -= 1
        if self.waiting:
            self.waiting.pop(stream.identity, None)
        if self.drained and not self.receiving:
            self._close_if_drained()

    def _close_if_drained(self) -> None:
        # To close while the peer still sends can cost it what it has not read yet.
        if self.drained and not self.streams and not self._departed.any_linger:
            self.closing = True

    def _guarded(self, stream: Stream, step: Callable[[], None]) -> None:
        """A handler that raises is our defect: its call ends, the connection goes on."""
        try:
            step()
        except (CallFault, StreamFault, ConnectionFault):
            raise
        except Exception:  # noqa: BLE001  one call's defect must not end the calls of every other client
            self.failed(stream)

    def failed(self, stream: Stream) -> None:
        _LOG.exception("a handler failed")
        self._give_up(stream, GrpcStatus.INTERNAL, "the server failed to serve this call")

    def _quietly(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:  # noqa: BLE001  as above
            _LOG.exception("a handler failed")


def _unpad(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than there is frame")
    return payload[1 : len(payload) - payload[0]]
