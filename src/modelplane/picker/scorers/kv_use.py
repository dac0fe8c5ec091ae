"""The share of the KV cache that is free."""

from collections.abc import Sequence

from modelplane.framework import Revised
from modelplane.picker.catalogue import NoParameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.memo import LoadColumn


class KvUseScorer:
    __slots__ = ("_column", "name")

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name
        self._column = LoadColumn(_free)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> Revised:
        return self._column.of(cycle, endpoints)


def _free(load: Load) -> float:
    return 1.0 - load.kv_use


TYPES = (plugin_type("kv-cache-utilization-scorer", KvUseScorer, NoParameters),)
