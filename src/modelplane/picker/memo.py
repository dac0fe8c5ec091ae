"""Columns that stand until what they were made from changes.

A scorer that reads nothing but loads gives the same tuple again while the loads are the same, and the framework then
skips what it would compute from it. Loads are replaced as a whole, so comparing a list of them is comparing identities.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_MOST_OWNERS = 4

T = TypeVar("T")
K = TypeVar("K")


class _Entry(Generic[K, T]):
    __slots__ = ("key", "owner", "value")

    def __init__(self, owner: object, key: list[K], value: tuple[T, ...]) -> None:
        self.owner = owner
        self.key = key
        self.value = value


class Remembered(Generic[K, T]):
    """`compute` of a list, remembered until the list of the same owner changes.

    The owner is the sequence of endpoints: one scorer may serve several profiles, each with endpoints of its own.
    """

    __slots__ = ("_compute", "_entries")

    def __init__(self, compute: Callable[[list[K]], tuple[T, ...]]) -> None:
        self._compute = compute
        self._entries: list[_Entry[K, T]] = []

    def of(self, owner: object, key: list[K]) -> tuple[T, ...]:
        for entry in self._entries:
            if entry.owner is owner:
                if entry.key != key:
                    entry.key, entry.value = key, self._compute(key)
                return entry.value
        value = self._compute(key)
        self._entries = [*self._entries[1 - _MOST_OWNERS :], _Entry(owner, key, value)]
        return value


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
