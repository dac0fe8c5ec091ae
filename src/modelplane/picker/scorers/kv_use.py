"""The share of the KV cache that is free."""

from collections.abc import Sequence

from modelplane.picker.catalogue import NoParameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.memo import Remembered


class KvUseScorer:
    __slots__ = ("_column", "name")

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name
        self._column: Remembered[Load, float] = Remembered(_scores)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> tuple[float, ...]:
        return self._column.of(endpoints, cycle.loads(endpoints))


def _scores(loads: list[Load]) -> tuple[float, ...]:
    return tuple([1.0 - load.kv_use for load in loads])


TYPES = (plugin_type("kv-cache-utilization-scorer", KvUseScorer, NoParameters),)
