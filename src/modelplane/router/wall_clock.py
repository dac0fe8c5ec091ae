"""The time of day for records, written once a second: requests of one second share it."""

import time
from collections.abc import Callable


class WallClock:
    """In ISO 8601, UTC, to the second."""

    __slots__ = ("_now", "_second", "_text")

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` is the time since the epoch in seconds."""
        self._now = now
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        second = int(self._now())
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        return self._text
