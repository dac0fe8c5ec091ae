"""Sockets whose readers the selector calls itself.

asyncio passes the news that a socket can be read through a handle, a queue, a context and a transport. Where requests
come one at a time, all of that is out of the processor's caches whenever it is needed, and costs as much as the reading
itself. Here a reader that was added for a socket is called by the selector, in the moment in which the kernel tells;
everything else that happens is asyncio's as ever, and nothing is kept from it: once there is a callback that is due or
a timer that was set, the selector returns.
"""

import math
import select
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_READABLE: Final = 1
_WRITABLE: Final = 4
"""What epoll calls them: the names are missing where it is."""
_MOST_EVENTS: Final = 256
Keys = Mapping[Any, selectors.SelectorKey]
Ready = list[tuple[selectors.SelectorKey, int]]


class DirectReads:
    """A selector's wait for events, by its epoll and what is registered there, that calls some readers itself."""

    def __init__(self, epoll: select.epoll, keys: Keys) -> None:
        self._epoll = epoll
        self._keys = keys
        self._readers: dict[int, Callable[[], bool]] = {}
        self.has_work = False
        """Whether the loop has got something to do since it asked last."""

    def add_reader(self, fd: int, reader: Callable[[], bool]) -> None:
        """Call the reader once the socket can be read. What it returns False for is reported to the loop."""
        self._readers[fd] = reader

    def remove_reader(self, fd: int) -> None:
        self._readers.pop(fd, None)

    def select(self, timeout: float | None = None) -> Ready:
        """As `selectors.BaseSelector` has it, but for what readers took."""
        self.has_work = False
        ready: Ready = []
        until_s = math.inf if timeout is None else time.monotonic() + timeout
        wait_s = -1.0 if timeout is None else _whole_ms(timeout)
        while True:
            try:
                events = self._epoll.poll(wait_s, _MOST_EVENTS)
            except InterruptedError:
                return ready
            for fd, event in events:
                reader = self._readers.get(fd) if event == _READABLE else None
                if reader is None or not reader():
                    self._report(ready, fd, event)
            if ready or self.has_work or not events:
                return ready
            if timeout is not None:
                left_s = until_s - time.monotonic()
                if left_s <= 0.0:
                    return ready
                wait_s = _whole_ms(left_s)

    def _report(self, ready: Ready, fd: int, event: int) -> None:
        key = self._keys.get(fd)
        if key is None:
            return
        mask = 0
        if event & ~_WRITABLE:
            mask |= selectors.EVENT_READ
        if event & ~_READABLE:
            mask |= selectors.EVENT_WRITE
        if mask & key.events:
            ready.append((key, mask & key.events))

    def close(self) -> None:
        self._epoll.close()


def _whole_ms(seconds: float) -> float:
    """The kernel counts milliseconds, and to wake too early is to wake twice."""
    return max(0.0, math.ceil(seconds * 1e3) * 1e-3)
