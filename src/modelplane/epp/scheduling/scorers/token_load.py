"""Fewer tokens are better: those in flight, plus the uncached tokens of this request."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.prefix import prefix_of
from modelplane.framework.registry import Parameters, plugin_type


class TokenLoadParameters(Parameters, frozen=True):
    queue_threshold_tokens: Annotated[int, msgspec.Meta(gt=0)] = 4194304
    in_flight_load_producer_name: str = ""


class TokenLoadScorer:
    __slots__ = ("_threshold", "name")

    def __init__(self, name: str, parameters: TokenLoadParameters) -> None:
        self.name = name
        self._threshold = parameters.queue_threshold_tokens

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        most = self._threshold
        ahead = [
            endpoint.tokens_in_flight + own
            for endpoint, own in zip(endpoints, uncached(context, endpoints), strict=True)
        ]
        return [1.0 - min(max(tokens, 0), most) / most for tokens in ahead]


def uncached(context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[int]:
    """The tokens of this request that each endpoint does not hold."""
    tokens = context.request.tokens
    match = prefix_of(context)
    if match is None:
        return [tokens] * len(endpoints)
    return [max(0, tokens - blocks * match.block_size) for blocks in context.aligned(match.matched, endpoints)]


TYPES = (plugin_type("token-load-scorer", TokenLoadScorer, TokenLoadParameters, consumes=("in-flight load",)),)
