"""More of the prompt already cached at the server is better.

The score is the share of the prompt's blocks that the server holds. With `matchLengthWeight` part of it is the absolute
length of the match, squared up to `matchLengthScaleTokens`: half of a very long prompt scores more than half of a short
one.
"""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import PRECISE, PrecisePrefixScorerParameters, PrefixCacheParameters
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import PREFIX, any_held, prefix_of
from modelplane.framework import SparseVector, zeros
from modelplane.framework.registry import plugin_type


class PrefixCacheScorer:
    __slots__ = ("_parameters", "_producer", "name")

    def __init__(self, name: str, parameters: PrefixCacheParameters) -> None:
        self.name = name
        self._parameters = parameters
        self._producer = parameters.prefix_match_info_producer_name

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        match = prefix_of(context, self._producer) if self._producer else context.get(PREFIX)
        if match is None or not match.total_blocks or not any_held(match):
            return zeros(len(endpoints))
        held = context.aligned(match.matched if match.weighted is None else match.weighted, endpoints)
        weight = self._parameters.match_length_weight
        if not weight:
            return _shares(held, match.total_blocks)
        return [self._blended(blocks, match, weight) for blocks in held]

    def _blended(self, blocks: float, match: PrefixMatch, weight: float) -> float:
        length = min(1.0, blocks * match.block_size / self._parameters.match_length_scale_tokens)
        return weight * length * length + (1.0 - weight) * min(1.0, blocks / match.total_blocks)


def _shares(held: Sequence[float], total: int) -> SparseVector[float]:
    if type(held) is SparseVector:
        return SparseVector(held.length, {at: min(1.0, blocks / total) for at, blocks in held.values.items()}, 0.0)
    return SparseVector(len(held), {at: min(1.0, blocks / total) for at, blocks in enumerate(held) if blocks}, 0.0)


def make_precise(name: str, _parameters: PrecisePrefixScorerParameters) -> PrefixCacheScorer:
    return PrefixCacheScorer(name, PrefixCacheParameters(prefix_match_info_producer_name=PRECISE))


TYPES = (
    plugin_type("prefix-cache-scorer", PrefixCacheScorer, PrefixCacheParameters, consumes=("prefix",)),
    plugin_type("multicluster-prefix-cache-scorer", PrefixCacheScorer, PrefixCacheParameters, consumes=("prefix",)),
    plugin_type(
        "precise-prefix-cache-scorer", make_precise, PrecisePrefixScorerParameters, replaced_by="prefix-cache-scorer"
    ).serving_as("extractor"),
)
