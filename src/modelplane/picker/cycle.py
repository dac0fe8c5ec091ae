"""The state of one decision: what filters, scorers and pickers are handed.

Time and chance come with it, so a cycle repeated with the same endpoints, request, time and seed decides the same.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import TypeVar

from modelplane.framework import Result, RunState
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.requests import Request

T = TypeVar("T")


class Cycle(RunState):
    """One request on its way through the profiles. Slots hold what plugins of this cycle tell each other."""

    __slots__ = (
        "_before", "_differing", "_loads", "_loads_of", "_places", "chance", "endpoints", "now_s", "request", "results",
    )  # fmt: skip

    def __init__(
        self, request: Request, endpoints: Sequence[Endpoint], now_s: float, chance: Callable[[], float]
    ) -> None:
        self._values = {}
        self.request = request
        self.endpoints = endpoints
        self.now_s = now_s
        self.chance = chance
        """A number in [0, 1) at each call."""
        self.results: dict[str, Result[Endpoint]] = {}
        """Profiles that have run, in the order they ran."""
        self._loads_of: Sequence[Endpoint] | None = None
        self._loads: list[Load] = []
        self._before: list[Load] | None = None
        self._differing: Sequence[int] = ()
        self._places: dict[Endpoint, int] | None = None

    def loads(self, endpoints: Sequence[Endpoint]) -> list[Load]:
        """The loads that these endpoints are expected to have, in their order: read once, however many scorers ask."""
        if endpoints is not self._loads_of:
            self._loads_of = endpoints
            self._loads = [endpoint.expected or endpoint.expect() for endpoint in endpoints]
        return self._loads

    def differing(self, before: list[Load]) -> Sequence[int]:
        """Where the loads that were just read differ from earlier ones of as many endpoints."""
        if before is not self._before:
            self._before = before
            self._differing = ()
            if before != self._loads:
                self._differing = tuple(compress(range(len(before)), map(is_not, before, self._loads)))
        return self._differing

    def aligned(self, column: Sequence[T], endpoints: Sequence[Endpoint]) -> Sequence[T]:
        """Of a column with a value for each of `self.endpoints`, the values for these, in their order."""
        if endpoints is self.endpoints:
            return column
        places = self._places
        if places is None:
            places = self._places = {endpoint: at for at, endpoint in enumerate(self.endpoints)}
        return [column[places[endpoint]] for endpoint in endpoints]


Results = Mapping[str, Result[Endpoint]]
