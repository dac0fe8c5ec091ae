"""A vector of which most elements are zero: it costs the elements that are not."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, overload

T = TypeVar("T")


class SparseVector(Sequence[T]):
    """`values` has the elements by index; the others are `zero`."""

    __slots__ = ("length", "values", "zero")

    def __init__(self, length: int, values: Mapping[int, T], zero: T) -> None:
        self.length = length
        self.values = values
        self.zero = zero

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        whole = [self.zero] * self.length
        for at, value in self.values.items():
            whole[at] = value
        return iter(whole)

    @overload
    def __getitem__(self, at: int, /) -> T: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[T]: ...
    def __getitem__(self, at: int | slice, /) -> T | list[T]:
        if isinstance(at, slice):
            return list(self)[at]
        return self.values.get(at if 0 <= at < self.length else range(self.length)[at], self.zero)


@lru_cache(maxsize=64)
def zeros(length: int) -> SparseVector[float]:
    """The scores of a scorer that has no opinion."""
    return SparseVector(length, {}, 0.0)
