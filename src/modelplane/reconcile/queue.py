"""The work queue of the loop: which key is next, and when. No tasks, no clock: times arrive as arguments.

A key is idle, queued or running, and never two of these. Adding a queued key changes nothing; adding a running key
queues it once, at the back, when its pass ends. The queue is first in, first out, so a key that changes all the time
waits its turn like any other.

Waits. Each key has at most one timer, at the earliest of three times: that of the last pass (requeue or
back-off), that of `add_after`, and that of an open breaker. The first
is replaced by the outcome of each pass, whatever caused that pass; the second stays until its time has come; a change
runs at once and does not wait for either.

A change that arrives during a back-off is looked at immediately: it may be the cure. What keeps that from spinning is
the breaker, which counts passes that changes caused.

Memory: a key that is idle, waits for nothing and did not break last time has no entry here.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from modelplane.reconcile.breaker import Breaker
from modelplane.reconcile.settings import LoopSettings

K = TypeVar("K", bound=Hashable)

_HEAP_SLACK = 64


class _Phase(Enum):
    IDLE = auto()
    QUEUED = auto()
    RUNNING = auto()


@dataclass(slots=True)
class _Entry:
    phase: _Phase = _Phase.IDLE
    again: bool = False
    """A running key was added: queue it when its pass ends."""
    changed: bool = False
    """The pass that is queued, or will be queued by `again`, is caused by a change and not by the clock."""
    failures: int = 0
    requeued_at: float = math.inf
    added_at: float = math.inf
    held_at: float = math.inf
    timer: int | None = None
    timer_at: float = math.inf
    forgotten: bool = False
    """The key was forgotten during its pass: the outcome no longer matters."""

    @property
    def due_at(self) -> float:
        return min(self.requeued_at, self.added_at, self.held_at)

    @property
    def empty(self) -> bool:
        return self.phase is _Phase.IDLE and not self.failures and self.due_at == math.inf


@dataclass(frozen=True, slots=True)
class QueueCounts(Generic[K]):
    """Delayed keys may be running or queued as well; broken ones failed in their newest pass."""

    queued: int
    running: int
    delayed: int
    broken: tuple[K, ...]
    open_breakers: tuple[K, ...]


class WorkQueue(Generic[K]):
    def __init__(self, settings: LoopSettings) -> None:
        self._breaker: Breaker[K] = Breaker(settings)
        self._entries: dict[K, _Entry] = {}
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._timers: list[tuple[float, int]] = []
        self._timer_keys: dict[int, K] = {}
        self._timers_made = 0
        self._running = 0

    def add(self, key: K) -> None:
        """Enqueue the key: it changed."""
        entry = self._entry(key)
        entry.changed = True
        self._enqueue(key, entry)

    def add_at(self, key: K, when: float) -> None:
        """Enqueue the key at this time; of several calls the earliest counts."""
        entry = self._entry(key)
        entry.added_at = min(entry.added_at, when)
        self._set_timer(key, entry)

    def take(self, now: float) -> K | None:
        """The key whose turn it is; it runs until `finish` or `interrupt`. None while there is nothing to do yet."""
        self._release_due(now)
        while self._ready:
            key, _ = self._ready.popitem(last=False)
            entry = self._entries[key]
            if not self._held_back(key, entry, now):
                self._start(key, entry)
                return key
        return None

    def finish(self, key: K, *, requeue_at: float = math.inf, failed: bool = False) -> None:
        """The pass ended; its key is due again at `requeue_at`."""
        entry = self._stop(key)
        if not entry.forgotten:
            entry.failures = entry.failures + 1 if failed else 0
            entry.requeued_at = requeue_at
        self._after(key, entry)

    def interrupt(self, key: K) -> None:
        """The pass was cut short from outside: its key is queued again."""
        entry = self._stop(key)
        entry.again = entry.again or not entry.forgotten
        self._after(key, entry)

    def failures(self, key: K) -> int:
        """How many passes failed in a row."""
        entry = self._entries.get(key)
        return entry.failures if entry else 0

    def forget(self, key: K) -> None:
        """The key is gone: nothing queued, awaited or remembered. A running pass ends without consequences."""
        self._breaker.forget(key)
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        if entry.timer is not None:
            self._drop_timer(entry)
        if entry.phase is _Phase.QUEUED:
            del self._ready[key]
        elif entry.phase is _Phase.RUNNING:
            self._entries[key] = _Entry(phase=_Phase.RUNNING, forgotten=True)

    @property
    def busy(self) -> bool:
        """Whether any key is queued or running."""
        return bool(self._ready) or self._running > 0

    def next_due(self) -> float:
        """When the earliest timer fires; infinity when none is set."""
        while self._timers and self._timers[0][1] not in self._timer_keys:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def counts(self, now: float) -> QueueCounts[K]:
        return QueueCounts(
            queued=len(self._ready),
            running=self._running,
            delayed=len(self._timer_keys),
            broken=tuple(key for key, entry in self._entries.items() if entry.failures),
            open_breakers=self._breaker.open_keys(now),
        )

    def _entry(self, key: K) -> _Entry:
        return self._entries.setdefault(key, _Entry())

    def _enqueue(self, key: K, entry: _Entry) -> None:
        if entry.phase is _Phase.RUNNING:
            entry.again = True
        elif entry.phase is _Phase.IDLE:
            entry.phase = _Phase.QUEUED
            self._ready[key] = None

    def _held_back(self, key: K, entry: _Entry, now: float) -> bool:
        until = self._breaker.hold_until(key, now) if entry.changed else None
        if until is None:
            return False
        entry.phase = _Phase.IDLE
        entry.changed = False
        entry.held_at = until
        self._set_timer(key, entry)
        return True

    def _start(self, key: K, entry: _Entry) -> None:
        entry.phase = _Phase.RUNNING
        entry.changed = False
        entry.requeued_at = math.inf
        self._set_timer(key, entry)
        self._running += 1

    def _stop(self, key: K) -> _Entry:
        entry = self._entries[key]
        entry.phase = _Phase.IDLE
        self._running -= 1
        return entry

    def _after(self, key: K, entry: _Entry) -> None:
        again, entry.again, entry.forgotten = entry.again, False, False
        if again:
            self._enqueue(key, entry)
        self._set_timer(key, entry)
        if entry.empty:
            del self._entries[key]

    def _release_due(self, now: float) -> None:
        while self.next_due() <= now:
            _, timer = heapq.heappop(self._timers)
            key = self._timer_keys.pop(timer)
            entry = self._entries[key]
            entry.timer, entry.timer_at = None, math.inf
            self._fire(key, entry, now)

    def _fire(self, key: K, entry: _Entry, now: float) -> None:
        if entry.held_at <= now:
            entry.held_at = math.inf
            entry.changed = True
        if entry.added_at <= now:
            entry.added_at = math.inf
        if entry.requeued_at <= now:
            entry.requeued_at = math.inf
        self._enqueue(key, entry)
        self._set_timer(key, entry)

    def _set_timer(self, key: K, entry: _Entry) -> None:
        due = entry.due_at
        if due == entry.timer_at:
            return
        if entry.timer is not None:
            self._drop_timer(entry)
        if due < math.inf:
            self._timers_made += 1
            entry.timer, entry.timer_at = self._timers_made, due
            self._timer_keys[self._timers_made] = key
            heapq.heappush(self._timers, (due, self._timers_made))

    def _drop_timer(self, entry: _Entry) -> None:
        """The heap keeps a bare number until it is popped or outnumbers the live ones; the key itself goes at once."""
        if entry.timer is not None:
            del self._timer_keys[entry.timer]
        entry.timer, entry.timer_at = None, math.inf
        if len(self._timers) > 2 * len(self._timer_keys) + _HEAP_SLACK:
            self._timers = [item for item in self._timers if item[1] in self._timer_keys]
            heapq.heapify(self._timers)
