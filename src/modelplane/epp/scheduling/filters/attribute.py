"""Endpoints one of whose numbers passes a threshold."""

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type


class ThresholdOperator(StrEnum):
    LESS = "LessThan"
    LESS_OR_EQUAL = "LessThanOrEqual"
    GREATER = "GreaterThan"
    GREATER_OR_EQUAL = "GreaterThanOrEqual"
    EQUAL = "Equal"
    NOT_EQUAL = "NotEqual"


_COMPARE: Mapping[ThresholdOperator, Callable[[float, float], bool]] = {
    ThresholdOperator.LESS: operator.lt,
    ThresholdOperator.LESS_OR_EQUAL: operator.le,
    ThresholdOperator.GREATER: operator.gt,
    ThresholdOperator.GREATER_OR_EQUAL: operator.ge,
    ThresholdOperator.EQUAL: operator.eq,
    ThresholdOperator.NOT_EQUAL: operator.ne,
}


class Threshold(Parameters, frozen=True):
    operator: ThresholdOperator
    value: float


class ThresholdAlgorithm(Parameters, frozen=True):
    type: Literal["threshold"] = "threshold"
    threshold: Threshold | None = None


class AttributeFilterParameters(Parameters, frozen=True):
    attribute: str
    producer: str | None = None
    on_missing: Literal["Pass", "Fail"] = "Pass"
    fallback_on_empty: bool = False
    algorithm: ThresholdAlgorithm = ThresholdAlgorithm()


class AttributeFilter:
    __slots__ = ("_attribute", "_compare", "_fallback", "_passes_missing", "_threshold", "name")

    def __init__(self, name: str, parameters: AttributeFilterParameters) -> None:
        if not parameters.attribute:
            raise InputError("attribute is required")
        threshold = parameters.algorithm.threshold
        if threshold is None:
            raise InputError("algorithm.threshold is required")
        self.name = name
        self._attribute = parameters.attribute
        self._threshold = threshold
        self._compare = _COMPARE[threshold.operator]
        self._passes_missing = parameters.on_missing == "Pass"
        self._fallback = parameters.fallback_on_empty

    def refuse(self, _context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        return None if self._fallback else self._judge(endpoint)

    def narrow(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        answers = [self._judge(endpoint) for endpoint in endpoints]
        return () if self._fallback and None not in answers else answers

    def _judge(self, endpoint: Endpoint) -> Refusal | None:
        value = endpoint.attributes.get(self._attribute)
        if value is None:
            missing = Refusal(self.name, RefusalCode.UNSCHEDULABLE, "has no {}", (self._attribute,))
            return None if self._passes_missing else missing
        if self._compare(value, self._threshold.value):
            return None
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} is {:g}, not {} {:g}",
                       (self._attribute, value, str(self._threshold.operator), self._threshold.value))  # fmt: skip


TYPES = (plugin_type("endpoint-attribute-filter", AttributeFilter, AttributeFilterParameters),)
