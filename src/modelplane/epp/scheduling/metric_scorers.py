"""Scores by what is known of each endpoint alone; what plugins inherit from."""

from collections.abc import Callable, Sequence

from modelplane.epp.scheduling.arithmetic import least_first
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint


class EndpointMetricScorer:
    """Scores an endpoint by its own metrics, independent of the request."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, read: Callable[[Endpoint], float]) -> None:
        self.name = name
        self.read = read

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        return list(map(self.read, endpoints))


class LowestFirstScorer:
    """A score of an endpoint by a number: 1 for the smallest of all, 0 for the largest; all equal is 1."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, read: Callable[[Endpoint], float]) -> None:
        self.name = name
        self.read = read

    relative_score = staticmethod(least_first)

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        numbers = list(map(self.read, endpoints))
        least, most = min(numbers), max(numbers)
        return [self.relative_score(number, least, most) for number in numbers]
