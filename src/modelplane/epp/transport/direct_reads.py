"""Polls, and has connections read by their own readers for as long as asyncio has nothing to do.

A round of asyncio's loop is some hundred interpreted instructions. Where requests come one at a time none of them is in
the processor's caches, and they cost a twentieth of a request.
"""

import time
from collections.abc import Callable
from math import inf
from typing import Final

DirectReaders = dict[int, Callable[[], bool]]
"""By file descriptor: reads what there is. False: asyncio is to read instead, which finds errors and ends."""
Events = list[tuple[int, int]]
"""File descriptors, and what epoll says of each."""
_MOST_EVENTS: Final = 256
_READABLE: Final = 1  # select.EPOLLIN, which only Linux has
_now: Final = time.monotonic


class DirectReads:
    def __init__(self, poll: Callable[[float, int], Events]) -> None:
        self.readers: DirectReaders = {}
        self.has_work = False
        """Whether asyncio was given something to do since it began to wait."""
        self._poll = poll

    def wait(self, timeout_s: float) -> Events:
        """The events that are left to asyncio. Below 0: however long it takes."""
        self.has_work = False
        until_s = _now() + timeout_s if timeout_s >= 0.0 else inf
        while True:
            left = self._read(timeout_s)
            if left or self.has_work:
                return left
            if until_s < inf:
                timeout_s = until_s - _now()
                if timeout_s <= 0.0:
                    return left

    def _read(self, timeout_s: float) -> Events:
        readers = self.readers
        left: Events = []
        for found in self._poll(timeout_s, _MOST_EVENTS):
            fd, event = found
            reader = readers.get(fd) if event == _READABLE else None
            if reader is None or not reader():
                left.append(found)
        return left
