"""Streams over one connection, with credit in both directions.

The reader of the connection never waits for a stream: what a stream has not consumed is bounded by its credit, so it
is kept. A peer that sends beyond that is cut off, and so is one that opens more streams than are allowed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from modelplane.tunnel.frames import (
    MAX_PAYLOAD,
    WINDOW_BYTES,
    TunnelError,
    TunnelFrame,
    TunnelFrameType,
    window,
)

SendFrame = Callable[[TunnelFrame], Awaitable[None]]


class TunnelStream:
    """One request. `head` and `chunks` are what the other end sends; `send` and `end` are ours."""

    def __init__(self, number: int, send_frame: SendFrame) -> None:
        self.number = number
        self._send_frame = send_frame
        self._head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = bytearray()
        self._credit = WINDOW_BYTES
        self._changed = asyncio.Event()
        self._ended = False
        self.failure = ""

    async def head(self) -> bytes:
        return await self._head

    async def send_head(self, payload: bytes) -> None:
        if len(payload) > MAX_PAYLOAD:
            raise TunnelError(f"headers of {len(payload)} bytes; {MAX_PAYLOAD} are the most")
        await self._send_frame(TunnelFrame(TunnelFrameType.HEAD, self.number, payload))

    async def send(self, content: bytes) -> None:
        """Waits for credit."""
        view = memoryview(content)
        while view:
            await self._until(lambda: self._credit > 0)
            if self.failure:
                raise TunnelError(self.failure)
            part = bytes(view[: min(self._credit, MAX_PAYLOAD)])
            self._credit -= len(part)
            view = view[len(part) :]
            await self._send_frame(TunnelFrame(TunnelFrameType.BODY, self.number, part))

    async def end(self) -> None:
        await self._send_frame(TunnelFrame(TunnelFrameType.END, self.number))

    async def reset(self, reason: str) -> None:
        payload = reason.encode()[:MAX_PAYLOAD]
        await self._send_frame(TunnelFrame(TunnelFrameType.RESET, self.number, payload))

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body that the other end sends, in order. Credit is given back for each part once it was taken."""
        while True:
            await self._until(lambda: bool(self._received) or self._ended)
            part = bytes(self._received[:MAX_PAYLOAD])
            if not part:
                if self.failure:
                    raise TunnelError(self.failure)
                return
            del self._received[: len(part)]
            yield part
            if not self._ended:
                await self._send_frame(window(self.number, len(part)))

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Or until the stream has failed."""
        while not holds() and not self.failure:
            self._changed.clear()
            await self._changed.wait()

    def on_frame(self, frame: TunnelFrame) -> None:
        """Of the connection's reader. Never waits."""
        if frame.type is TunnelFrameType.HEAD and not self._head.done():
            self._head.set_result(frame.payload)
        elif frame.type is TunnelFrameType.BODY and not self._ended:
            self._keep(frame.payload)
        elif frame.type is TunnelFrameType.END:
            self._ended = True
        elif frame.type is TunnelFrameType.WINDOW:
            self._credit = min(self._credit + frame.credit, WINDOW_BYTES)
        elif frame.type is TunnelFrameType.RESET:
            self.fail(frame.payload.decode(errors="replace"))
        else:
            raise TunnelError(f"{frame.type.name} of stream {frame.stream} is out of order")
        self._changed.set()

    def _keep(self, payload: bytes) -> None:
        self._received += payload
        if len(self._received) > WINDOW_BYTES:
            raise TunnelError(f"stream {self.number} has more than {WINDOW_BYTES} bytes under way")

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason or "reset"
        if not self._head.done():
            self._head.set_exception(TunnelError(self.failure))
            self._head.exception()  # nobody may be waiting for it
        self._changed.set()


class TunnelStreams:
    """The streams of one connection, by number."""

    def __init__(self, send_frame: SendFrame, *, most: int) -> None:
        self._send_frame = send_frame
        self._most = most
        self._streams: dict[int, TunnelStream] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[TunnelStream]:
        return iter(tuple(self._streams.values()))

    @property
    def is_full(self) -> bool:
        return len(self._streams) >= self._most

    def open(self) -> TunnelStream:
        """A stream of ours; the caller has seen that there is room."""
        number = self._next
        self._next = self._next % 0xFFFFFFFF + 1
        return self._add(number)

    def accept(self, frame: TunnelFrame) -> TunnelStream | None:
        """Hands a frame to its stream. A HEAD with a new number opens one, which is returned."""
        known = self._streams.get(frame.stream)
        if known is not None:
            known.on_frame(frame)
            return None
        if frame.type is not TunnelFrameType.HEAD:
            return None  # of a stream that this end has closed: its last frames were under way
        if self.is_full:
            raise TunnelError(f"more than {self._most} streams")
        stream = self._add(frame.stream)
        stream.on_frame(frame)
        return stream

    def hand(self, frame: TunnelFrame) -> None:
        """As `accept`, for the end that opens streams: nobody else may."""
        known = self._streams.get(frame.stream)
        if known is not None:
            known.on_frame(frame)

    def _add(self, number: int) -> TunnelStream:
        stream = TunnelStream(number, self._send_frame)
        self._streams[number] = stream
        return stream

    def close(self, stream: TunnelStream) -> None:
        self._streams.pop(stream.number, None)

    def fail_all(self, reason: str) -> None:
        for stream in self:
            stream.fail(reason)
