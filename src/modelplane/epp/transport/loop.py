"""The event loop that pickers and routers serve with: asyncio's, but that its selector reads connections itself.

asyncio passes an event through a key, a queue, a handle, a context and a transport before a connection reads. Where
requests come one at a time none of that is in the processor's caches, and it costs a tenth of a request. Here a
connection may have its own reader (`direct_readers`), which the selector calls; all other events go asyncio's way.

Where the kernel has no epoll the loop is asyncio's as it is. The gain: design/0011-http2.md.
"""

import asyncio
import math
import os
import select
import selectors
import sys
import time
from collections.abc import Callable
from typing import Final

DirectReaders = dict[int, Callable[[], bool]]
"""By file descriptor: reads what there is. False: asyncio is to read instead, which finds errors and ends."""
_MOST_EVENTS: Final = 256

if sys.platform == "linux":

    class ReadingSelector(selectors.EpollSelector):
        def __init__(self) -> None:
            super().__init__()
            self.direct_readers: DirectReaders = {}
            self._events = select.epoll.fromfd(os.dup(self.fileno()))
            self._keys = self.get_map()

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """The events that are left to asyncio."""
            # The kernel counts milliseconds, and to wake too early is to wake twice.
            wait_s = -1.0 if timeout is None else max(0.0, math.ceil(timeout * 1e3) * 1e-3)
            ready: list[tuple[selectors.SelectorKey, int]] = []
            for fd, event in self._events.poll(wait_s, _MOST_EVENTS):
                reader = self.direct_readers.get(fd) if event == select.EPOLLIN else None
                if (reader is None or not reader()) and (key := self._keys.get(fd)) is not None:
                    mask = (event & ~select.EPOLLOUT and selectors.EVENT_READ) | (
                        event & ~select.EPOLLIN and selectors.EVENT_WRITE
                    )
                    ready.append((key, mask & key.events))
            return ready

        def close(self) -> None:
            self._events.close()
            super().close()

    class DirectReadLoop(asyncio.SelectorEventLoop):
        def __init__(self) -> None:
            selector = ReadingSelector()
            self.direct_readers = selector.direct_readers
            super().__init__(selector)
            # What the method of this name calls, twice for each event.
            self.time = time.monotonic  # type: ignore[method-assign]


def make_loop() -> asyncio.AbstractEventLoop:
    return DirectReadLoop() if sys.platform == "linux" else asyncio.new_event_loop()
