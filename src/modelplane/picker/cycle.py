"""The state of one decision: what filters, scorers and pickers are handed.

Time and chance come with it, so a cycle repeated with the same endpoints, request, time and seed decides the same.
"""

from collections.abc import Callable, Mapping, Sequence

from modelplane.framework import Result, RunState
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.requests import Request


class Cycle(RunState):
    """One request on its way through the profiles. Slots hold what plugins of this cycle tell each other."""

    __slots__ = ("chance", "endpoints", "now_s", "request", "results")

    def __init__(
        self, request: Request, endpoints: Sequence[Endpoint], now_s: float, chance: Callable[[], float]
    ) -> None:
        super().__init__()
        self.request = request
        self.endpoints = endpoints
        self.now_s = now_s
        self.chance = chance
        """A number in [0, 1) at each call."""
        self.results: dict[str, Result[Endpoint]] = {}
        """Profiles that have run, in the order they ran."""


Results = Mapping[str, Result[Endpoint]]
