"""More of the prompt already cached at the server is better.

The score is the share of the prompt's blocks that the server holds. With `matchLengthWeight` part of it is the absolute
length of the match instead, squared on the way to `matchLengthScaleTokens`: half of a very long prompt is worth more
than half of a short one.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.picker.catalogue import Parameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.memo import Constant
from modelplane.picker.memory.prefix import PrefixMatch, prefix_of


class PrefixCacheParameters(Parameters, frozen=True):
    prefix_match_info_producer_name: str = ""
    match_length_weight: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    match_length_scale_tokens: Annotated[int, msgspec.Meta(gt=0)] = 8192


class PrefixCacheScorer:
    __slots__ = ("_none", "_parameters", "name")

    def __init__(self, name: str, parameters: PrefixCacheParameters) -> None:
        self.name = name
        self._parameters = parameters
        self._none = Constant(0.0)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        match = prefix_of(cycle, self._parameters.prefix_match_info_producer_name)
        if match is None or not match.total_blocks or not match.any:
            return self._none.of(len(endpoints))
        held = cycle.aligned(match.matched if match.weighted is None else match.weighted, endpoints)
        weight = self._parameters.match_length_weight
        if not weight:
            return _shares(held, match.total_blocks)
        return [self._blended(blocks, match, weight) for blocks in held]

    def _blended(self, blocks: float, match: PrefixMatch, weight: float) -> float:
        length = min(1.0, blocks * match.block_size / self._parameters.match_length_scale_tokens)
        return weight * length * length + (1.0 - weight) * min(1.0, blocks / match.total_blocks)


def _shares(held: Sequence[float], total: int) -> list[float]:
    shares = [blocks / total for blocks in held]
    return shares if max(shares) <= 1.0 else [min(1.0, share) for share in shares]


TYPES = (plugin_type("prefix-cache-scorer", PrefixCacheScorer, PrefixCacheParameters, reads=("prefix",)),)
