"""Columns that stand until what they were made from changes, and scores by what is known of each endpoint alone."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint

T = TypeVar("T")
K = TypeVar("K")


class EndpointGauge:
    """A score of an endpoint by what is known of it alone, whatever the request."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, read: Callable[[Endpoint], float]) -> None:
        self.name = name
        self.read = read

    def score(self, _cycle: Cycle, endpoints: Sequence[Endpoint], /) -> list[float]:
        return list(map(self.read, endpoints))


class LeastFirst:
    """A score of an endpoint by a number: 1 for the smallest of all, 0 for the largest; all equal is 1."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, read: Callable[[Endpoint], float]) -> None:
        self.name = name
        self.read = read

    def grade(self, number: float, least: float, most: float, /) -> float:
        span = most - least
        return (most - number) / span if span else 1.0

    def score(self, _cycle: Cycle, endpoints: Sequence[Endpoint], /) -> list[float]:
        numbers = list(map(self.read, endpoints))
        least, most = min(numbers), max(numbers)
        return [self.grade(number, least, most) for number in numbers]


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
