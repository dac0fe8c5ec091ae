"""The event loop that the picker serves with: asyncio's, whose selector reads some sockets itself (`h2.direct_read`).

Where the kernel has no epoll it is asyncio's as it is, and transports read every connection.
"""

import asyncio
import os
import select
import selectors
import sys
import time
from collections.abc import Callable
from contextvars import Context

from modelplane.epp.transport.h2.direct_read import DirectReads

if sys.platform == "linux":

    class _Selector(selectors.EpollSelector):
        def __init__(self) -> None:
            super().__init__()
            self.direct = DirectReads(select.epoll.fromfd(os.dup(self.fileno())), self.get_map())
            self.select = self.direct.select  # type: ignore[method-assign]  # one call less for each event

        def close(self) -> None:
            self.direct.close()
            super().close()

    class DirectReadLoop(asyncio.SelectorEventLoop):
        """Says to its selector when there is something to be done, so that it returns for it."""

        def __init__(self) -> None:
            selector = _Selector()
            self.direct = selector.direct
            super().__init__(selector)
            # What the method of this name calls, several times for each event.
            self.time = time.monotonic  # type: ignore[method-assign]

        def call_soon(
            self, callback: Callable[..., object], *args: object, context: Context | None = None
        ) -> asyncio.Handle:
            self.direct.has_work = True
            return super().call_soon(callback, *args, context=context)

        def call_at(
            self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
        ) -> asyncio.TimerHandle:
            self.direct.has_work = True
            return super().call_at(when, callback, *args, context=context)


def make_loop() -> asyncio.AbstractEventLoop:
    return DirectReadLoop() if sys.platform == "linux" else asyncio.new_event_loop()
