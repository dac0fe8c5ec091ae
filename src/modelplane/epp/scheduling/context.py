"""The state of one scheduling cycle, which all plugins get.

Time and random numbers come with it: the same endpoints, request, time and seed give the same decision.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from modelplane.api.identity import IdentityMemo
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.framework import CycleState, Profile, Result, SparseVector

T = TypeVar("T")
_MAX_TUPLES: Final = 4


Positions = IdentityMemo[Sequence[Endpoint], Mapping[Endpoint, int]]


def new_positions() -> Positions:
    """The position of each endpoint of a tuple, computed once for a tuple."""
    return IdentityMemo(_positions, _MAX_TUPLES)


def _positions(endpoints: Sequence[Endpoint]) -> Mapping[Endpoint, int]:
    return {endpoint: at for at, endpoint in enumerate(endpoints)}


class SchedulingContext(CycleState):
    """One request on its way through the profiles. Slots have the data that plugins of this cycle share."""

    __slots__ = (
        "_metrics", "_metrics_of", "_positions", "chance", "endpoints", "now_s", "request", "results",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        endpoints: Sequence[Endpoint],
        now_s: float,
        chance: Callable[[], float],
        positions: Positions | None = None,
    ) -> None:
        self._values = {}
        self.request = request
        self.endpoints = endpoints
        self.now_s = now_s
        self.chance = chance
        """A random number in [0, 1) at each call."""
        self.results: dict[str, Result[Endpoint]] = {}
        """Profiles that have run, in the order they ran."""
        self._metrics_of: Sequence[Endpoint] | None = None
        self._metrics: list[EndpointMetrics] = []
        self._positions = positions or new_positions()

    def metrics(self, endpoints: Sequence[Endpoint]) -> list[EndpointMetrics]:
        """The expected metrics of these endpoints, computed once a cycle."""
        if endpoints is not self._metrics_of:
            self._metrics_of = endpoints
            self._metrics = [endpoint.expected or endpoint.expect() for endpoint in endpoints]
        return self._metrics

    def aligned(self, column: Sequence[T], endpoints: Sequence[Endpoint]) -> Sequence[T]:
        """The values of these endpoints, in their order, from a column aligned with `self.endpoints`."""
        if endpoints is self.endpoints:
            return column
        if type(column) is SparseVector and type(endpoints) is tuple and len(endpoints) > 1:
            wanted, every = self._positions(endpoints), self.endpoints
            held = {wanted[every[at]]: count for at, count in column.values.items() if every[at] in wanted}
            return SparseVector(len(endpoints), held, column.zero)
        places = self._own_positions()
        return [column[places[endpoint]] for endpoint in endpoints]

    def value(self, column: Sequence[T], endpoint: Endpoint) -> T:
        """The value of one endpoint in an aligned column."""
        return column[self._own_positions()[endpoint]]

    def _own_positions(self) -> Mapping[Endpoint, int]:
        return self._positions(self.endpoints) if type(self.endpoints) is tuple else _positions(self.endpoints)


Profiles = Mapping[str, Profile[SchedulingContext, Endpoint]]
