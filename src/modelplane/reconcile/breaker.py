"""Stops two writers that undo each other's work from spinning the loop.

Each pass that a change caused is counted against its key. When one more would exceed the limit within a sliding window
the key's breaker opens: the change is held back, and the next pass is a probe one probe interval later. Changes that
arrive meanwhile are held for that probe; none is lost, because passes are level-based and the probe sees the newest
state. After each probe the interval starts again.

An open breaker closes when a whole interval brings no change, and when its key is forgotten. Passes that the clock
caused (looking again, back-off) are neither counted nor held: they are bounded by their own waits.

Time arrives as an argument. A record costs at most `breaker_passes` numbers and is dropped once its key is quiet.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from modelplane.reconcile.settings import LoopSettings

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Record:
    passes: list[float] = field(default_factory=list)
    probe_at: float | None = None
    holds: bool = False

    def is_open(self, now: float) -> bool:
        return self.probe_at is not None and (self.holds or now < self.probe_at)


class Breaker(Generic[K]):
    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        self._records: OrderedDict[K, _Record] = OrderedDict()

    def hold_until(self, key: K, now: float) -> float | None:
        """Ask before a pass that a change caused. None lets it run and counts it; a time holds it back until then."""
        self._drop_quiet(now)
        record = self._records.setdefault(key, _Record())
        self._records.move_to_end(key)
        if record.is_open(now):
            return self._probe(record, now)
        record.probe_at = None
        return self._count(record, now)

    def _count(self, record: _Record, now: float) -> float | None:
        start = now - self._settings.breaker_window_s
        del record.passes[: bisect_right(record.passes, start)]
        if len(record.passes) < self._settings.breaker_passes:
            record.passes.append(now)
            return None
        record.passes.clear()
        return self._hold(record, now + self._settings.breaker_probe_s)

    def _probe(self, record: _Record, now: float) -> float | None:
        if record.probe_at is not None and now < record.probe_at:
            return self._hold(record, record.probe_at)
        record.probe_at = now + self._settings.breaker_probe_s
        record.holds = False
        return None

    @staticmethod
    def _hold(record: _Record, until: float) -> float:
        record.probe_at = until
        record.holds = True
        return until

    def forget(self, key: K) -> None:
        self._records.pop(key, None)

    def open_keys(self, now: float) -> tuple[K, ...]:
        """Keys whose changes are held back, in the order they were last heard of."""
        return tuple(key for key, record in self._records.items() if record.is_open(now))

    def __len__(self) -> int:
        """How many keys it remembers."""
        return len(self._records)

    def _drop_quiet(self, now: float) -> None:
        while self._records:
            key, record = next(iter(self._records.items()))
            if not self._is_quiet(record, now):
                return
            del self._records[key]

    def _is_quiet(self, record: _Record, now: float) -> bool:
        if record.probe_at is not None:
            return not record.is_open(now)
        return not record.passes or record.passes[-1] <= now - self._settings.breaker_window_s
