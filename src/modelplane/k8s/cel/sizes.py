"""Ranges of sizes and costs: (least, most) in unsigned 64 bits, where the largest number means unbounded."""

from math import ceil
from typing import Protocol, TypeAlias

from modelplane.k8s.cel.types import CelType

MAX = 2**64 - 1

Range: TypeAlias = tuple[int, int]

UNKNOWN: Range = (0, MAX)
ZERO: Range = (0, 0)
ONE: Range = (1, 1)


class SizeEstimator(Protocol):
    """Known bounds of the data: how large the value at a path, or of a type, can be."""

    def size(self, path: tuple[str, ...], found: CelType) -> Range | None:
        """The size of the value, or None where nothing is known."""


def exactly(number: int) -> Range:
    """The range of one number."""
    return number, number


def plus(left: Range, right: Range) -> Range:
    """The sum; too much is unbounded."""
    return min(left[0] + right[0], MAX), min(left[1] + right[1], MAX)


def times(left: Range, right: Range) -> Range:
    """The product; too much is unbounded."""
    return min(left[0] * right[0], MAX), min(left[1] * right[1], MAX)


def scaled(size: Range, factor: float) -> Range:
    """The range times a factor, rounded up."""
    return _scaled(size[0], factor), _scaled(size[1], factor)


def _scaled(number: int, factor: float) -> int:
    product = float(number) * factor
    return MAX if product >= 2.0**64 else ceil(product)


def union(left: Range, right: Range) -> Range:
    """The smallest range around both."""
    return min(left[0], right[0]), max(left[1], right[1])


def wrapped(number: int) -> int:
    """A number as unsigned 64 bit arithmetic leaves it; some of upstream's sums are not guarded."""
    return number & MAX
