"""Half a point for an empty queue, less the longer it is, none from the threshold on."""

from typing import Annotated

import msgspec

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metric_scorers import EndpointMetricScorer
from modelplane.framework.registry import Parameters, plugin_type

_BEST = 0.5


class LoadAwareParameters(Parameters, frozen=True):
    threshold: Annotated[int, msgspec.Meta(gt=0)] = 128


class LoadAwareScorer(EndpointMetricScorer):
    __slots__ = ("_threshold",)

    def __init__(self, name: str, parameters: LoadAwareParameters) -> None:
        super().__init__(name, self._score)
        self._threshold = float(parameters.threshold)

    def _score(self, endpoint: Endpoint) -> float:
        most = self._threshold
        return _BEST * (1.0 - min(endpoint.waiting, most) / most)


TYPES = (plugin_type("load-aware-scorer", LoadAwareScorer, LoadAwareParameters),)
