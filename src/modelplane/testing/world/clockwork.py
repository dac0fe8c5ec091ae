"""The one thread of a world: a queue of timed events and a clock that jumps to the next of them.

The clock shows two times. `elapsed` only grows and orders the events. `now` is wall-clock time as the API server and
the control planes read it, and a fault may make it jump.
"""

import heapq
from collections.abc import Callable
from itertools import count

EPOCH_S = 1_800_000_000.0
"""A whole second in January 2027."""


class Clockwork:
    def __init__(self) -> None:
        self.elapsed = 0.0
        self.skew_s = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def now(self) -> float:
        return EPOCH_S + self.elapsed + self.skew_s

    def __len__(self) -> int:
        """How many events are due some time."""
        return len(self._queue)

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.elapsed + max(seconds, 0.0), next(self._order), event))

    def run_until(self, elapsed: float) -> None:
        """Run what is due by then, in order of time and then of scheduling."""
        while self._queue and self._queue[0][0] <= elapsed:
            due, _, event = heapq.heappop(self._queue)
            self.elapsed = max(self.elapsed, due)
            event()
        self.elapsed = max(self.elapsed, elapsed)
