"""Virtual time: asyncio programs that wait for hours run in milliseconds, and every run can be repeated.

`run_virtual(main)` gives `main` a VirtualClock and runs it on an event loop whose time does not advance while anything
can run and jumps to the next timer when nothing can. asyncio's own timers (sleep, timeout, call_later) use the same
time, so code that does not take a Clock is covered as well.

Without a seed, ready tasks take turns in asyncio's order. With one, the order among tasks that are ready at the same
moment is drawn from it: each seed is another legal interleaving, the same one each time. Plain callbacks keep the
order asyncio promises.

A run fails on: nothing left to wait for (deadlock), no progress in time (livelock), too much virtual time, a leaked
task, or an unhandled error. Threads, sockets and subprocesses use real time and are not supported.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

EPOCH_S = 1_750_000_000.0
"""The start of virtual wall-clock time: a whole second in June 2025."""

_TURNS_AT_ONE_INSTANT = 100_000


class VirtualTimeError(AssertionError):
    """The program cannot continue, ran for too long, or leaked a task."""


class VirtualClock:
    """A Clock that does not advance until it is moved: by `advance`, or by its loop."""

    def __init__(self, *, epoch_s: float = EPOCH_S) -> None:
        self._epoch_s = epoch_s
        self._elapsed_s = 0.0

    def now(self) -> float:
        return self._epoch_s + self._elapsed_s

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if not (isinstance(loop, VirtualLoop) and loop.clock is self):
            raise VirtualTimeError("a VirtualClock sleeps only on the loop of its own run_virtual")
        await asyncio.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Move time on, as if nothing had run meanwhile."""
        self.advance_to(self._elapsed_s + seconds)

    def advance_to(self, elapsed_s: float) -> None:
        self._elapsed_s = max(self._elapsed_s, elapsed_s)


class _InstantSelector(selectors.DefaultSelector):
    """Never waits: where asyncio would, it lets the loop move its clock instead."""

    wait: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout != 0:
            self.wait(timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a clock that jumps. `_ready`, `_scheduled` and `_run_once` are asyncio's, since 3.4."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, clock: VirtualClock, *, seed: int | None = None, limit_s: float = 86_400.0) -> None:
        selector = _InstantSelector()
        selector.wait = self._jump
        self.clock = clock
        self.unseen: list[str] = []
        self._random = None if seed is None else random.Random(seed)  # noqa: S311  reproducible, not secret
        self._limit_s = limit_s
        self._turns = 0
        super().__init__(selector)
        self.set_exception_handler(self._keep)

    def time(self) -> float:
        return self.clock.monotonic()

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise VirtualTimeError("deadlock: every task waits, and no timer is set")
        self.clock.advance_to(self._scheduled[0].when())
        self._turns = 0
        if self.clock.monotonic() > self._limit_s:
            raise VirtualTimeError(f"still busy after {self._limit_s} s of virtual time")

    def _run_once(self) -> None:
        self._turns += 1
        if self._turns > _TURNS_AT_ONE_INSTANT:
            raise VirtualTimeError(f"livelock: {_TURNS_AT_ONE_INSTANT} turns without time passing")
        if self._random is not None:
            self._shuffle_tasks(self._random)
        super()._run_once()  # type: ignore[misc]  # typeshed leaves it out

    def _shuffle_tasks(self, source: random.Random) -> None:
        places = [place for place, handle in enumerate(self._ready) if _is_task_step(handle)]
        steps = [self._ready[place] for place in places]
        source.shuffle(steps)
        for place, step in zip(places, steps, strict=True):
            self._ready[place] = step

    def _keep(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.unseen.append(f"{context.get('message')}: {context.get('exception')!r}")


def _is_task_step(handle: asyncio.Handle) -> bool:
    callback: object = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[object, object, T]],
    *,
    seed: int | None = None,
    limit_s: float = 86_400.0,
) -> T:
    """Run to the end in virtual time, and check that nothing was left behind."""
    clock = VirtualClock()
    loop = VirtualLoop(clock, seed=seed, limit_s=limit_s)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main(clock))
        left = sorted(task.get_name() for task in asyncio.all_tasks(loop))
    if left:
        raise VirtualTimeError(f"tasks left behind: {', '.join(left)}")
    if loop.unseen:
        raise VirtualTimeError("; ".join(loop.unseen))
    return result
