"""The event loop that pickers and routers serve with: asyncio's, but that its selector reads connections itself.

asyncio passes an event through a key, a queue, a handle, a context and a transport before a connection reads. Where
requests come one at a time none of that is in the processor's caches, and it costs a tenth of a request. Here a
connection may have its own reader (`direct_readers`), which the selector calls; all other events go asyncio's way. The
selector returns when there are any, when a timer is due, or when asyncio was given something to call.

Where the kernel has no epoll the loop is asyncio's as it is. The gain: design/0011-http2.md.
"""

import asyncio
import os
import select
import selectors
import sys
import time
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from modelplane.epp.transport.direct_reads import DirectReads

Ts = TypeVarTuple("Ts")

if sys.platform == "linux":

    class ReadingSelector(selectors.EpollSelector):
        def __init__(self) -> None:
            super().__init__()
            self._events = select.epoll.fromfd(os.dup(self.fileno()))
            self.direct_reads = DirectReads(self._events.poll)
            self._keys = self.get_map()

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """The events that are left to asyncio."""
            ready: list[tuple[selectors.SelectorKey, int]] = []
            for fd, event in self.direct_reads.wait(-1.0 if timeout is None else max(0.0, timeout)):
                if (key := self._keys.get(fd)) is not None:
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
            self._reads = selector.direct_reads
            self.direct_readers = self._reads.readers
            super().__init__(selector)
            # What the method of this name calls, twice for each event.
            self.time = time.monotonic  # type: ignore[method-assign]

        def call_soon(
            self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
        ) -> asyncio.Handle:
            self._reads.has_work = True
            return super().call_soon(callback, *args, context=context)

        def call_at(
            self,
            when: float,
            callback: Callable[[*Ts], object],
            *args: *Ts,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            self._reads.has_work = True
            return super().call_at(when, callback, *args, context=context)

        def stop(self) -> None:
            self._reads.has_work = True
            super().stop()


def make_loop() -> asyncio.AbstractEventLoop:
    return DirectReadLoop() if sys.platform == "linux" else asyncio.new_event_loop()
