"""Counts of which most are 0, as those of blocks that endpoints hold: they cost what is not 0, and no more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload


class Counts(Sequence[int]):
    """As many counts as `length` says; `values` has those that are not 0 by their place."""

    __slots__ = ("length", "values")

    def __init__(self, length: int, values: Mapping[int, int]) -> None:
        self.length = length
        self.values = values

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        whole = [0] * self.length
        for at, count in self.values.items():
            whole[at] = count
        return iter(whole)

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[int]: ...
    def __getitem__(self, at: int | slice, /) -> int | list[int]:
        if isinstance(at, slice):
            return list(self)[at]
        return self.values.get(at if 0 <= at < self.length else range(self.length)[at], 0)
