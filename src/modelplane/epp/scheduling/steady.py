"""Filters whose answer for an endpoint never changes: they read its labels only."""

from collections.abc import Callable, Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.remembered import RememberedFor
from modelplane.framework import Refusal


class SteadyFilter:
    """Asks `judge` once for each endpoint of a pool, and again when the pool changes."""

    __slots__ = ("_answers", "_judge", "name")

    def __init__(self, name: str, judge: Callable[[Endpoint], Refusal | None]) -> None:
        self.name = name
        self._judge = judge
        self._answers: RememberedFor[Endpoint, Refusal | None] = RememberedFor(self._all)

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        return self._judge(endpoint)

    def narrow(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        return self._answers.of(endpoints)

    def _all(self, endpoints: Sequence[Endpoint]) -> tuple[Refusal | None, ...]:
        return tuple(map(self._judge, endpoints))
