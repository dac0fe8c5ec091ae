"""Prefers servers for the context lengths in their label, a range of tokens.

No label scores 0.5. Inside its range an endpoint scores 0.3 to 1: more where the range is narrow (made for this length)
and where much of it lies above the request (room to grow). Outside it scores less than 0.3, falling with the distance.
A label that is no range scores 0. As a filter it keeps out endpoints whose range does not hold the request.
"""

from collections.abc import Sequence
from functools import lru_cache

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type

LABEL = "llm-d.ai/context-length-range"

_UNKNOWN = 0.5
_OUTSIDE = 0.3
_NARROW, _HEADROOM = 0.7, 0.3
_WIDTH_SCALE, _DISTANCE_SCALE = 10000.0, 1000.0


class ContextLengthParameters(Parameters, frozen=True):
    label: str = LABEL
    enable_filtering: bool = False


class ContextLengthScorer:
    __slots__ = ("_label", "name")

    def __init__(self, name: str, parameters: ContextLengthParameters) -> None:
        self.name = name
        self._label = parameters.label

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        tokens = context.request.tokens
        return [_score(endpoint.labels.get(self._label), tokens) for endpoint in endpoints]


class ContextLengthFilter(ContextLengthScorer):
    """Filter and scorer in one: a separate type, because the framework also runs a scorer with `refuse` as a filter."""

    __slots__ = ()

    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        label = endpoint.labels.get(self._label)
        if label is None:
            return None
        tokens = context.request.tokens
        limits = _limits(label)
        if limits is None or not limits[0] <= tokens <= limits[1]:
            return Refusal(
                self.name, RefusalCode.UNRESOLVABLE, "takes contexts of {} tokens; the request has {}", (label, tokens)
            )
        return None


def make(name: str, parameters: ContextLengthParameters) -> ContextLengthScorer:
    return (ContextLengthFilter if parameters.enable_filtering else ContextLengthScorer)(name, parameters)


def _score(label: str | None, tokens: int) -> float:
    if label is None:
        return _UNKNOWN
    limits = _limits(label)
    if limits is None:
        return 0.0
    low, high = limits
    if not low <= tokens <= high:
        return _OUTSIDE / (1.0 + (low - tokens if tokens < low else tokens - high) / _DISTANCE_SCALE)
    width = high - low
    if not width:
        return 1.0
    fit = _NARROW / (1.0 + width / _WIDTH_SCALE) + _HEADROOM * (high - tokens) / width
    return _OUTSIDE + (1.0 - _OUTSIDE) * fit


@lru_cache(maxsize=4096)
def _limits(label: str) -> tuple[int, int] | None:
    """`min-max` in tokens; None if it is not a range."""
    low, dash, high = label.partition("-")
    if not dash or not (low.strip().isdecimal() and high.strip().isdecimal()) or int(low) > int(high):
        return None
    return int(low), int(high)


TYPES = (plugin_type("context-length-aware", make, ContextLengthParameters),)
