"""Output to the peer: queued frames, and the peer's flow-control windows for DATA."""

from collections.abc import Callable

from modelplane.epp.transport.h2.frames import (
    FIRST_WINDOW,
    LARGEST_WINDOW,
    LEAST_FRAME_BYTES,
    ErrorCode,
    H2ConnectionError,
)


class SendQueue:
    """The output queue of a connection, its send window, and the largest frame that the peer accepts."""

    __slots__ = ("_corked", "_frame_bytes", "_on_output", "_queue", "_window")

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._on_output = on_output
        self._queue: list[bytes] = []
        self._corked = False
        """While bytes are received: the driver takes the output when that is over."""
        self._window = FIRST_WINDOW
        self._frame_bytes = LEAST_FRAME_BYTES

    def queue(self, *parts: bytes) -> None:
        self._queue.extend(parts)

    def queue_now(self, parts: list[bytes]) -> None:
        """Queue, and notify the driver."""
        self._queue.extend(parts)
        if not self._corked:
            self._on_output()

    def notify(self) -> None:
        if not self._corked:
            self._on_output()

    def cork(self) -> None:
        self._corked = True

    def uncork(self) -> None:
        self._corked = False

    def take(self) -> bytes:
        """Everything that is to be written."""
        queue, self._queue = self._queue, []
        return b"".join(queue)

    def try_reserve(self, size: int) -> bool:
        """Whether so much fits the window and one frame; it is taken from the window then."""
        if size > self._window or size > self._frame_bytes:
            return False
        self._window -= size
        return True

    def reserve_up_to(self, size: int) -> int:
        """As much of it as fits the window and one frame, taken from the window; 0: none."""
        size = max(0, min(size, self._window, self._frame_bytes))
        self._window -= size
        return size

    @property
    def is_blocked(self) -> bool:
        return self._window <= 0

    def widen(self, increment: int) -> None:
        """The peer sent a WINDOW_UPDATE for the connection."""
        self._window += increment
        if self._window > LARGEST_WINDOW:
            raise H2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window overflows")

    def limit_frames(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
