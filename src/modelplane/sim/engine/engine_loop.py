"""The engine's loop: runs the scheduler's steps when they are due, and notifies the readers of tokens.

An engine that has nothing to do has no timer. One that works has a single one, for the end of its current step. Ends
are absolute: a timer that fires late delays the tokens of that turn and nothing after it, and when it fires very late
(a busy machine) several steps are caught up with in one turn, so that load on the host shows as burstier and not as
slower answers. Beyond `_MOST_LAG_S` it does show: a simulation cannot answer for more work than the machine can do.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from modelplane.sim.engine.scheduler import BatchScheduler
from modelplane.sim.engine.sequence import Sequence

if TYPE_CHECKING:
    from modelplane.sim.engine.steps import BatchStep

_MOST_LAG_S = 0.25
# How many steps one turn may run before others get theirs.
_STEPS_PER_TURN = 64


class Timer(Protocol):
    def cancel(self) -> None: ...


class EngineClock(Protocol):
    """A monotonic clock; tests have one that does not wait. `tick` is the resolution of its timers."""

    @property
    def tick(self) -> float: ...

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer: ...


class LoopClock:
    """The running event loop's time. Its timers are kept in whole milliseconds by the system's poll."""

    tick = 0.001

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_at(when, callback)


async def pause(clock: EngineClock, seconds: float) -> None:
    """Sleep on this clock."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not done.done():
            done.set_result(None)

    timer = clock.call_at(clock.now() + seconds, end)
    try:
        await done
    finally:
        timer.cancel()


class EngineLoop:
    """Drives one scheduler. `published` is called after every turn that may have changed the cache."""

    def __init__(self, scheduler: BatchScheduler, clock: EngineClock, published: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._published = published
        self._step: BatchStep | None = None
        self._start = self._end = 0.0
        self._timer: Timer | None = None
        self._stalled = False

    def submit(self, sequence: Sequence) -> None:
        self._scheduler.add(sequence, self._clock.now())
        self.wake_up()

    def abort(self, sequence: Sequence) -> None:
        self._scheduler.abort(sequence)
        self.wake_up()

    def wake_up(self) -> None:
        """Schedule a turn, unless a step is running: something changed from outside."""
        if self._step is None:
            self._arm(self._clock.now())

    def stall(self, *, stalled: bool) -> None:
        """A stalled engine computes nothing and reports no error, as one whose GPU hangs."""
        self._stalled = stalled
        if not stalled:
            self._arm(self._clock.now())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(when, self._turn)

    def _turn(self) -> None:
        self._timer = None
        if self._stalled:
            return
        now = self._clock.now()
        for _ in range(_STEPS_PER_TURN):
            if not self._advance(now):
                break
        self._published()
        if self._step is not None:
            self._arm(self._end)
        elif (due_s := self._scheduler.next_event()) is not None:
            self._arm(due_s)

    def _advance(self, now: float) -> bool:
        """End the step that is due and start the next; False when there is none of either."""
        at = now
        if self._step is not None:
            if self._end > now + self._clock.tick / 2:
                return False
            step, self._step, at = self._step, None, self._end
            self._scheduler.complete(step, start=self._start, end=at)
        self._scheduler.settle(max(at, now))
        self._start = max(at, now - _MOST_LAG_S)
        behind = max(0.0, now - self._start)
        self._step = self._scheduler.plan(self._start, horizon_s=behind + self._clock.tick)
        if self._step is None:
            return False
        self._end = self._start + self._step.seconds
        return True
