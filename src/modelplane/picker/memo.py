"""Columns that stand until what they were made from changes.

A scorer that reads nothing but loads gives the same column again while the loads are the same, and where a few of them
changed it says which, so that the framework adds up only those. Loads are replaced as a whole, so comparing a list of
them is comparing identities.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from modelplane.framework import Revised
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load

_MOST_OWNERS = 4

T = TypeVar("T")
K = TypeVar("K")


class _Kept:
    __slots__ = ("column", "counts", "least", "loads", "most", "numbers", "owner")

    def __init__(self, owner: object, loads: list[Load]) -> None:
        self.owner = owner
        self.loads = loads
        self.numbers: list[float] = []
        self.counts: dict[float, int] = {}
        """How many endpoints have which number."""
        self.least = self.most = 0.0
        self.column = Revised(())


class LoadColumn:
    """A score for each endpoint by one number of its load.

    The owner is the sequence of endpoints: one scorer may serve several profiles, each with endpoints of its own.
    """

    __slots__ = ("_kept", "_number")

    def __init__(self, number: Callable[[Load], float]) -> None:
        self._number = number
        self._kept: list[_Kept] = []

    def of(self, cycle: Cycle, endpoints: Sequence[Endpoint]) -> Revised:
        loads = cycle.loads(endpoints)
        for kept in self._kept:
            if kept.owner is endpoints:
                changes = cycle.differing(kept.loads) if kept.loads is not loads else ()
                if changes:
                    kept.loads = loads
                    self._revise(kept, changes)
                return kept.column
        kept = _Kept(endpoints, loads)
        kept.numbers = list(map(self._number, loads))
        self._make(kept)
        self._kept = [*self._kept[1 - _MOST_OWNERS :], kept]
        return kept.column

    def _make(self, kept: _Kept) -> None:
        kept.column = Revised(kept.numbers.copy())

    def _revise(self, kept: _Kept, changes: Sequence[int]) -> None:
        before = kept.column.values
        scores, numbers, number, loads = list(before), kept.numbers, self._number, kept.loads
        for at in changes:
            scores[at] = numbers[at] = number(loads[at])
        kept.column = Revised(scores, before, changes)


class RelativeColumn(LoadColumn):
    """The same, each number between the largest (0) and the smallest (1); all equal is 1."""

    __slots__ = ()

    def _make(self, kept: _Kept) -> None:
        kept.counts = dict(Counter(kept.numbers))
        self._draw(kept)

    def _draw(self, kept: _Kept) -> None:
        least, most = kept.least, kept.most = min(kept.counts), max(kept.counts)
        span = most - least
        line = {number: (most - number) / span if span else 1.0 for number in kept.counts}
        kept.column = Revised([line[number] for number in kept.numbers])

    def _revise(self, kept: _Kept, changes: Sequence[int]) -> None:
        if self._recount(kept, changes):
            self._draw(kept)
            return
        before, most, span, numbers = kept.column.values, kept.most, kept.most - kept.least, kept.numbers
        scores = list(before)
        for at in changes:
            scores[at] = (most - numbers[at]) / span
        kept.column = Revised(scores, before, changes)

    def _recount(self, kept: _Kept, changes: Sequence[int]) -> bool:
        """Takes in the numbers that changed. Whether the largest or the smallest is another, so that all scores are."""
        counts, numbers, number, loads = kept.counts, kept.numbers, self._number, kept.loads
        least, most = kept.least, kept.most
        moved = least == most
        for at in changes:
            left, came = numbers[at], number(loads[at])
            numbers[at] = came
            counts[came] = counts.get(came, 0) + 1
            moved = moved or came < least or came > most
            if counts[left] > 1:
                counts[left] -= 1
            else:
                del counts[left]
                moved = moved or left in {least, most}
        return moved


class RememberedFor(Generic[K, T]):
    """`compute` of a sequence that never changes, remembered for as long as the same tuple is asked about."""

    __slots__ = ("_compute", "_key", "_value")

    def __init__(self, compute: Callable[[Sequence[K]], tuple[T, ...]]) -> None:
        self._compute = compute
        self._key: Sequence[K] | None = None
        self._value: tuple[T, ...] = ()

    def of(self, key: Sequence[K]) -> tuple[T, ...]:
        if key is not self._key or type(key) is not tuple:
            self._value = self._compute(key)
            self._key = key
        return self._value


class Constant:
    """One number for each of any count."""

    __slots__ = ("_column", "_value")

    def __init__(self, value: float) -> None:
        self._value = value
        self._column: tuple[float, ...] = ()

    def of(self, count: int) -> tuple[float, ...]:
        if len(self._column) != count:
            self._column = (self._value,) * count
        return self._column
