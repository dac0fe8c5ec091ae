"""The state of one decision: what filters, scorers and pickers are handed.

Time and chance come with it, so a cycle repeated with the same endpoints, request, time and seed decides the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from modelplane.epp.scheduling.counts import Counts
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.loads import Load
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import Profile, Result, RunState

T = TypeVar("T")
_MOST_OWNERS = 4


class EndpointPositions:
    """Where each endpoint of a sequence stands, found once for a tuple."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[tuple[Sequence[Endpoint], Mapping[Endpoint, int]]] = []

    def of(self, endpoints: Sequence[Endpoint]) -> Mapping[Endpoint, int]:
        for owner, places in self._kept:
            if owner is endpoints:
                return places
        found = {endpoint: at for at, endpoint in enumerate(endpoints)}
        if type(endpoints) is tuple:
            self._kept = [*self._kept[1 - _MOST_OWNERS :], (endpoints, found)]
        return found


class SchedulingContext(RunState):
    """One request on its way through the profiles. Slots hold what plugins of this cycle tell each other."""

    __slots__ = (
        "_loads", "_loads_of", "_places", "chance", "endpoints", "now_s", "request", "results",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        endpoints: Sequence[Endpoint],
        now_s: float,
        chance: Callable[[], float],
        places: EndpointPositions | None = None,
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
        self._places = places

    def loads(self, endpoints: Sequence[Endpoint]) -> list[Load]:
        """The loads that these endpoints are expected to have, in their order: read once, however many scorers ask."""
        if endpoints is not self._loads_of:
            self._loads_of = endpoints
            self._loads = [endpoint.expected or endpoint.expect() for endpoint in endpoints]
        return self._loads

    def aligned(self, column: Sequence[T], endpoints: Sequence[Endpoint]) -> Sequence[T]:
        """Of a column with a value for each of `self.endpoints`, the values for these, in their order."""
        if endpoints is self.endpoints:
            return column
        known = self._places
        if known is None:
            known = self._places = EndpointPositions()
        if type(column) is Counts and type(endpoints) is tuple and len(endpoints) > 1:
            wanted, every = known.of(endpoints), self.endpoints
            held = {wanted[every[at]]: count for at, count in column.values.items() if every[at] in wanted}
            return cast("Sequence[T]", Counts(len(endpoints), held))
        places = known.of(self.endpoints)
        return [column[places[endpoint]] for endpoint in endpoints]

    def value(self, column: Sequence[T], endpoint: Endpoint) -> T:
        """Of such a column, the value for one endpoint."""
        known = self._places
        if known is None:
            known = self._places = EndpointPositions()
        return column[known.of(self.endpoints)[endpoint]]


Profiles = Mapping[str, Profile[SchedulingContext, Endpoint]]
