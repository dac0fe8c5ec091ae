"""Reconciles keys until it is cancelled: a few at once, never two passes over one key.

The loop is level-based. A pass gets a key and not what happened to it; it reads the state, acts, and returns an
Outcome. What the loop does next:

    Done            nothing, until the key is added again; its failure count is reset
    RequeueAfter    another pass after that time, or sooner when the key is added
    Failed          `on_failed`, then another pass after a back-off that doubles with each failure in a row

An exception from the pass counts as Failed; no pass ends the loop. `queue` decides order, coalescing and waits, and
`breaker` stops hot keys; this module only moves keys between them and tasks.

Everything here belongs to one event loop: `add` and its siblings are called from its thread, before or during `run`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from modelplane.reconcile.backoff import backoff_s
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.outcomes import Done, Failed, Outcome, RequeueAfter
from modelplane.reconcile.queue import WorkQueue
from modelplane.reconcile.settings import LoopSettings

K = TypeVar("K", bound=Hashable)

OnFailed = Callable[[K, Exception, int], None]
"""Called with the key, the error, and how many passes over the key failed in a row."""

_DEFAULTS = LoopSettings()


@dataclass(frozen=True, slots=True)
class LoopStats(Generic[K]):
    """The state of the loop. Delayed keys wait for a time; broken ones failed in their last pass."""

    queued: int
    running: int
    delayed: int
    passes: int
    broken: tuple[K, ...]
    open_breakers: tuple[K, ...]


class Loop(Generic[K]):
    """Keys must be hashable and have a repr that depends on their value only: it spreads the back-off."""

    def __init__(
        self,
        reconcile: Callable[[K], Awaitable[Outcome]],
        *,
        clock: Clock,
        workers: int = 4,
        settings: LoopSettings = _DEFAULTS,
        on_failed: OnFailed[K] | None = None,
    ) -> None:
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._settings = settings
        self._on_failed = on_failed
        self._queue: WorkQueue[K] = WorkQueue(settings)
        self._passes = 0
        self._running = False
        self._stopping = False
        self._work_came = asyncio.Event()
        self._stirred = asyncio.Event()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = math.inf

    def add(self, key: K) -> None:
        """Enqueue the key. Adds until its pass starts count as one."""
        self._queue.add(key)
        self._notice()

    def add_after(self, key: K, seconds: float) -> None:
        """Enqueue the key after this many seconds; of several calls the earliest counts."""
        if not math.isfinite(seconds):
            raise ValueError(f"add_after needs a finite number of seconds, not {seconds}")
        self._queue.add_at(key, self._clock.monotonic() + max(0.0, seconds))
        self._notice()

    def forget(self, key: K) -> None:
        """The key is gone: its waits, failures and breaker too. A pass over it that runs is not stopped."""
        self._queue.forget(key)
        self._notice()

    def stats(self) -> LoopStats[K]:
        counts = self._queue.counts(self._clock.monotonic())
        return LoopStats(
            queued=counts.queued,
            running=counts.running,
            delayed=counts.delayed,
            passes=self._passes,
            broken=counts.broken,
            open_breakers=counts.open_breakers,
        )

    async def run(self) -> None:
        """Work until cancelled. Passes that run then may finish within the grace time, and are cancelled after it.

        Keys that were queued, waiting or cut short stay so, and a later `run` takes them up.
        """
        if self._running:
            raise RuntimeError("this loop runs already")
        self._running, self._stopping = True, False
        workers = [asyncio.create_task(self._work(), name=f"reconcile-{number}") for number in range(self._workers)]
        self._arm_timer()
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in ended:
                worker.result()
        finally:
            self._running = False
            await self._stop(workers)

    async def settle(self, within_s: float, *, quiet_s: float = 1.0) -> bool:
        """Wait until nothing is queued or running and nothing comes due within quiet_s; False when time ran out."""
        expiry = asyncio.create_task(self._clock.sleep(within_s), name="settle-expiry")
        try:
            while not self._at_rest(quiet_s):
                if expiry.done():
                    return False
                self._stirred.clear()
                await _first_of(expiry, self._stirred.wait())
            return True
        finally:
            await _end([expiry])

    def _at_rest(self, quiet_s: float) -> bool:
        return not self._queue.busy and self._queue.next_due() > self._clock.monotonic() + quiet_s

    def _notice(self) -> None:
        self._stirred.set()
        if self._running:
            self._work_came.set()
            self._arm_timer()

    def _arm_timer(self) -> None:
        due = self._queue.next_due()
        if due == self._timer_at and self._timer is not None:
            return
        self._drop_timer()
        if due < math.inf:
            self._timer_at = due
            self._timer = asyncio.create_task(self._wake_at(due), name="reconcile-timer")

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, math.inf

    async def _wake_at(self, due: float) -> None:
        while (left := due - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._timer, self._timer_at = None, math.inf
        self._work_came.set()

    async def _work(self) -> None:
        while not self._stopping:
            key = self._queue.take(self._clock.monotonic())
            self._arm_timer()
            if key is None:
                self._work_came.clear()
                await self._work_came.wait()
                continue
            await self._pass_over(key)
            self._notice()
            await asyncio.sleep(0)  # a pass may never have waited; whoever shares the event loop gets a turn

    async def _pass_over(self, key: K) -> None:
        self._passes += 1
        try:
            outcome = await self._outcome(key)
        except BaseException:
            self._queue.interrupt(key)
            raise
        self._conclude(key, outcome)

    async def _outcome(self, key: K) -> Outcome:
        try:
            outcome = await self._reconcile(key)
        except asyncio.CancelledError as error:
            if _cancelled_from_outside():
                raise
            return Failed(RuntimeError(f"the pass was cancelled from within: {error}"))
        except Exception as error:  # noqa: BLE001  a pass may fail in any way; the loop goes on and reports it
            return Failed(error)
        return _checked(outcome)

    def _conclude(self, key: K, outcome: Outcome) -> None:
        now = self._clock.monotonic()
        match outcome:
            case Done():
                self._queue.finish(key)
            case RequeueAfter(after_s):
                self._queue.finish(key, requeue_at=now + max(after_s, self._settings.requeue_least_s))
            case Failed(error):
                attempt = self._queue.failures(key) + 1
                self._queue.finish(key, requeue_at=now + backoff_s(key, attempt, self._settings), failed=True)
                self._report(key, error, attempt)

    def _report(self, key: K, error: Exception, attempt: int) -> None:
        if self._on_failed is None:
            return
        try:
            self._on_failed(key, error, attempt)
        except Exception as failure:  # noqa: BLE001  whoever watches must not be able to stop the loop
            context = {"message": f"on_failed failed for {key!r}", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)

    async def _stop(self, workers: list[asyncio.Task[None]]) -> None:
        self._stopping = True
        self._work_came.set()
        self._drop_timer()
        grace = asyncio.create_task(self._clock.sleep(self._settings.grace_s), name="reconcile-grace")
        try:
            await _first_of(grace, asyncio.wait(workers))
        finally:
            await _end([grace, *workers])


async def _first_of(task: asyncio.Task[None], other: Coroutine[object, object, object]) -> None:
    waiter = asyncio.create_task(other)
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end([waiter])


async def _end(tasks: Sequence[asyncio.Task[object]] | Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _checked(outcome: object) -> Outcome:
    match outcome:
        case RequeueAfter(after_s) if not math.isfinite(after_s):
            return Failed(ValueError(f"RequeueAfter needs a finite number of seconds, not {after_s}"))
        case Done() | RequeueAfter() | Failed():
            return outcome
        case _:
            return Failed(TypeError(f"a pass must return an Outcome, not {type(outcome).__name__}"))
