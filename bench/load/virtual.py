"""A clock that jumps."""

from collections.abc import Callable
from heapq import heappop, heappush


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualTime:
    """A clock that runs whatever is due next, at once; in the order of asking where two are due together."""

    tick = 0.0

    def __init__(self) -> None:
        self._now_s = 0.0
        self._due: list[tuple[float, int, _Timer]] = []
        self._asked = 0

    def now(self) -> float:
        return self._now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        self._asked += 1
        heappush(self._due, (when, self._asked, timer))
        return timer

    def run(self, until: Callable[[], bool]) -> None:
        while self._due and not until():
            when, _, timer = heappop(self._due)
            self._now_s = max(self._now_s, when)
            if timer.callback is not None:
                timer.callback()
