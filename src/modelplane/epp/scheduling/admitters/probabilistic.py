"""Rejects sheddable requests with a probability that grows with the saturation of the pool.

Only requests with a priority below 0 are rejected. The saturation is the mean of the endpoints; that of an endpoint is
the worse of its queue and its KV cache over their thresholds, and 1 where it was never scraped. The probability is `k`
times the saturation to the `power`, at most 1.
"""

from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.framework.registry import Parameters, plugin_type


class ProbabilisticParameters(Parameters, frozen=True):
    queue_depth_threshold: Annotated[int, msgspec.Meta(gt=0)] = 5
    kv_cache_util_threshold: Annotated[float, msgspec.Meta(gt=0.0)] = 0.8
    power: Annotated[float, msgspec.Meta(gt=0.0)] = 5.0
    k: Annotated[float, msgspec.Meta(ge=0.0)] = 300.0


class ProbabilisticAdmitter:
    __slots__ = ("_parameters", "name")

    def __init__(self, name: str, parameters: ProbabilisticParameters) -> None:
        self.name = name
        self._parameters = parameters

    def admit(self, context: SchedulingContext, /) -> str:
        if context.request.priority >= 0:
            return ""
        all_metrics = context.metrics(context.endpoints)
        full = sum(map(self._fullness, all_metrics)) / len(all_metrics)
        # Far above 1 the power would overflow, and the probability is 1 long before.
        chance = min(1.0, self._parameters.k * min(full, 1e6) ** min(self._parameters.power, 50.0))
        if context.chance() >= chance:
            return ""
        return f"the saturation is {full:.2f} and the priority is {context.request.priority}, below 0"

    def _fullness(self, metrics: EndpointMetrics) -> float:
        if metrics.scraped_s < 0.0:
            return 1.0
        limits = self._parameters
        return max(
            metrics.waiting / limits.queue_depth_threshold, metrics.kv_cache_usage / limits.kv_cache_util_threshold
        )


TYPES = (plugin_type("probabilistic-admitter", ProbabilisticAdmitter, ProbabilisticParameters),)
