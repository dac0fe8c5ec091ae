"""Endpoints none of whose figures is above its limit.

The figures are the expected ones: a burst between two scrapes counts.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type


class UtilizationMetric(StrEnum):
    ACTIVE_REQUESTS = "active-requests"
    RUNNING_REQUESTS = "running-requests"
    WAITING_QUEUE = "waiting-queue"
    KV_CACHE_UTILIZATION = "kv-cache-utilization"


_READ: Mapping[UtilizationMetric, Callable[[Endpoint], float]] = {
    UtilizationMetric.ACTIVE_REQUESTS: lambda endpoint: float(endpoint.requests_in_flight),
    UtilizationMetric.RUNNING_REQUESTS: lambda endpoint: endpoint.running,
    UtilizationMetric.WAITING_QUEUE: lambda endpoint: endpoint.waiting,
    UtilizationMetric.KV_CACHE_UTILIZATION: lambda endpoint: endpoint.kv_cache_usage,
}


class UtilizationCondition(Parameters, frozen=True):
    metric: UtilizationMetric
    max_value: Annotated[float, msgspec.Meta(ge=0.0)]


class UtilizationFilterParameters(Parameters, frozen=True):
    conditions: tuple[UtilizationCondition, ...] = ()
    fallback_on_empty: bool = False
    in_flight_load_producer_name: str = ""


class UtilizationFilter:
    __slots__ = ("_conditions", "_fallback", "name")

    def __init__(self, name: str, parameters: UtilizationFilterParameters) -> None:
        if not parameters.conditions:
            raise InputError("conditions: at least one is needed")
        for condition in parameters.conditions:
            if condition.metric is UtilizationMetric.KV_CACHE_UTILIZATION and condition.max_value > 1.0:
                raise InputError(
                    f"conditions: {condition.metric} is a share of 1, and maxValue is {condition.max_value:g}"
                )
        self.name = name
        self._conditions = [(_READ[one.metric], one.max_value, str(one.metric)) for one in parameters.conditions]
        self._fallback = parameters.fallback_on_empty

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        return None if self._fallback else self._judge(endpoint)

    def narrow(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        answers = [self._judge(endpoint) for endpoint in endpoints]
        return () if self._fallback and None not in answers else answers

    def _judge(self, endpoint: Endpoint) -> Refusal | None:
        for read, limit, metric in self._conditions:
            value = read(endpoint)
            if value > limit:
                return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} is {:g}, above {:g}", (metric, value, limit))
        return None


TYPES = (
    plugin_type("utilization-filter", UtilizationFilter, UtilizationFilterParameters, consumes=("in-flight load",)),
)
