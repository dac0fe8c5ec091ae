"""Scores a numeric attribute of endpoints, from discovery or a custom metric, linearly from worst to best.

The scale is a fixed range, or the range of the candidates. An endpoint without the attribute scores 0.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.arithmetic import within_unit
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework.registry import NoParameters, Parameters, PluginType, plugin_type


class Direction(StrEnum):
    LOWER = "linear_lower_is_better"
    HIGHER = "linear_higher_is_better"


class FixedRange(Parameters, frozen=True):
    min: float = 0.0
    max: float = 0.0


class Normalization(Parameters, frozen=True):
    fixed_range: FixedRange | None = None
    adaptive_range: NoParameters | None = None


class ScoreAlgorithm(Parameters, frozen=True):
    type: Direction
    normalization: Normalization = Normalization()


class AttributeScorerParameters(Parameters, frozen=True):
    attribute_key: str
    algorithm: ScoreAlgorithm
    producer: str | None = None


class AttributeScorer:
    __slots__ = ("_fixed", "_key", "_lower", "name")

    def __init__(self, name: str, parameters: AttributeScorerParameters) -> None:
        normalization = parameters.algorithm.normalization
        fixed = normalization.fixed_range
        if not parameters.attribute_key:
            raise InputError("attributeKey is required")
        if fixed is not None and normalization.adaptive_range is not None:
            raise InputError("algorithm.normalization: fixedRange and adaptiveRange exclude each other")
        if fixed is not None and not fixed.min < fixed.max:
            raise InputError("algorithm.normalization.fixedRange: min must be less than max")
        self.name = name
        self._key = parameters.attribute_key
        self._lower = parameters.algorithm.type is Direction.LOWER
        self._fixed = fixed

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        values = [_number(endpoint.attributes, self._key) for endpoint in endpoints]
        known = [value for value in values if value is not None]
        if not known:
            return [0.0] * len(values)
        low, high = (self._fixed.min, self._fixed.max) if self._fixed else (min(known), max(known))
        return [0.0 if value is None else self._on_line(value, low, high) for value in values]

    def _on_line(self, value: float, low: float, high: float) -> float:
        if low == high:
            return 1.0
        share = within_unit((value - low) / (high - low))
        return 1.0 - share if self._lower else share


def _number(attributes: Mapping[str, float], key: str) -> float | None:
    value = attributes.get(key)
    return value if value is not None and isfinite(value) else None


def _pool_type(name: str, attribute: str, fixed: FixedRange | None = None) -> PluginType:
    """A scorer over the reported metrics of whole pools in other clusters: lower is better."""
    algorithm = ScoreAlgorithm(type=Direction.LOWER, normalization=Normalization(fixed_range=fixed))

    def make(instance: str, _parameters: NoParameters) -> AttributeScorer:
        return AttributeScorer(instance, AttributeScorerParameters(attribute_key=attribute, algorithm=algorithm))

    return plugin_type(name, make, NoParameters)


TYPES = (
    plugin_type("endpoint-attribute-scorer", AttributeScorer, AttributeScorerParameters),
    _pool_type("multicluster-queue-scorer", "llm-d.ai/multicluster-queue-size"),
    _pool_type(
        "multicluster-kv-cache-utilization-scorer",
        "llm-d.ai/multicluster-kv-cache-utilization",
        FixedRange(min=0.0, max=1.0),
    ),
)
