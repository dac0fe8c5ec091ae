"""Columns that stand until what they were made from changes.

A scorer that reads nothing but loads gives the same tuple again while the loads are the same, and the framework then
skips what it would compute from it. Loads are replaced as a whole, so comparing a list of them is comparing identities.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


class Remembered(Generic[K, T]):
    """`compute` of a list, remembered for as long as equal lists are asked about."""

    __slots__ = ("_compute", "_key", "_value")

    def __init__(self, compute: Callable[[list[K]], tuple[T, ...]]) -> None:
        self._compute = compute
        self._key: list[K] = []
        self._value: tuple[T, ...] = ()

    def of(self, key: list[K]) -> tuple[T, ...]:
        if key != self._key:
            self._value = self._compute(key)
            self._key = key
        return self._value


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
