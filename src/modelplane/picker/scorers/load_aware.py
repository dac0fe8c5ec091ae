"""Half a point for an empty queue, less the longer it is, none from the threshold on."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.framework import Revised
from modelplane.picker.catalogue import Parameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.memo import LoadColumn

_BEST = 0.5


class LoadAwareParameters(Parameters, frozen=True):
    threshold: Annotated[int, msgspec.Meta(gt=0)] = 128


class LoadAwareScorer:
    __slots__ = ("_column", "_threshold", "name")

    def __init__(self, name: str, parameters: LoadAwareParameters) -> None:
        self.name = name
        self._threshold = float(parameters.threshold)
        self._column = LoadColumn(self._score)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> Revised:
        return self._column.of(cycle, endpoints)

    def _score(self, load: Load) -> float:
        most = self._threshold
        return _BEST * (1.0 - min(load.waiting, most) / most)


TYPES = (plugin_type("load-aware-scorer", LoadAwareScorer, LoadAwareParameters),)
