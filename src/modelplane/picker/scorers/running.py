"""Fewer requests running at the server is better, relative to the others."""

from collections.abc import Sequence

from modelplane.picker.arithmetic import lower_is_better
from modelplane.picker.catalogue import NoParameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.memo import Remembered


class RunningScorer:
    __slots__ = ("_column", "name")

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name
        self._column: Remembered[Load, float] = Remembered(_scores)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> tuple[float, ...]:
        return self._column.of(endpoints, cycle.loads(endpoints))


def _scores(loads: list[Load]) -> tuple[float, ...]:
    return lower_is_better([load.running for load in loads])


TYPES = (plugin_type("running-requests-size-scorer", RunningScorer, NoParameters),)
