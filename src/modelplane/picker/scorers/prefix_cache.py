"""More of the prompt already cached at the server is better.

The score is the share of the prompt's blocks that the server holds. With `matchLengthWeight` part of it is the absolute
length of the match instead, squared on the way to `matchLengthScaleTokens`: half of a very long prompt is worth more
than half of a short one.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from modelplane.framework import Few
from modelplane.picker.catalogue import Parameters, plugin_type
from modelplane.picker.counts import Counts
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.memory.prefix import PREFIX, PrefixMatch, prefix_of

APPROXIMATE, PRECISE = "approx-prefix-cache-producer", "precise-prefix-cache-producer"
_BYTES_A_TOKEN = 4
_NOTHING: Mapping[int, float] = {}


class PrefixCacheParameters(Parameters, frozen=True, omit_defaults=True):
    """The fields after the first three are those of older configurations, in which scorer and index were one."""

    prefix_match_info_producer_name: str = ""
    match_length_weight: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    match_length_scale_tokens: Annotated[int, msgspec.Meta(gt=0)] = 8192
    auto_tune: bool | None = None
    block_size_tokens: int | None = None
    block_size: int | None = None
    hash_block_size: int | None = None
    """In characters."""
    max_prefix_blocks_to_match: int | None = None
    max_prefix_tokens_to_match: int | None = None
    lru_capacity_per_server: int | None = None

    def names_producer(self) -> tuple[str, Mapping[str, object]] | None:
        given = {name: value for name, value in self._of_the_index().items() if value is not None}
        return (APPROXIMATE, given) if given else None

    def _of_the_index(self) -> Mapping[str, object]:
        tokens = None if self.hash_block_size is None else max(1, self.hash_block_size // _BYTES_A_TOKEN)
        return {
            "autoTune": self.auto_tune,
            "blockSizeTokens": tokens if self.block_size_tokens is None else self.block_size_tokens,
            "blockSize": self.block_size,
            "maxPrefixBlocksToMatch": self.max_prefix_blocks_to_match,
            "maxPrefixTokensToMatch": self.max_prefix_tokens_to_match,
            "lruCapacityPerServer": self.lru_capacity_per_server,
        }


class PrecisePrefixParameters(Parameters, frozen=True):
    """All of them are the precise producer's."""

    token_processor_config: dict[str, object] | None = None
    indexer_config: dict[str, object] | None = None
    kv_events_config: dict[str, object] | None = None
    speculative_indexing: bool = False
    speculative_ttl: str = msgspec.field(default="2s", name="speculativeTTL")

    def names_producer(self) -> tuple[str, Mapping[str, object]]:
        plain: dict[str, object] = msgspec.to_builtins(self)
        return PRECISE, {name: value for name, value in plain.items() if value is not None}


class PrefixCacheScorer:
    __slots__ = ("_none", "_parameters", "_producer", "name")

    def __init__(self, name: str, parameters: PrefixCacheParameters) -> None:
        self.name = name
        self._parameters = parameters
        self._producer = parameters.prefix_match_info_producer_name
        self._none = Few(0, _NOTHING)

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        match = prefix_of(cycle, self._producer) if self._producer else cycle.get(PREFIX)
        if match is None or not match.total_blocks or not match.any:
            if self._none.length != len(endpoints):
                self._none = Few(len(endpoints), _NOTHING)
            return self._none
        held = cycle.aligned(match.matched if match.weighted is None else match.weighted, endpoints)
        weight = self._parameters.match_length_weight
        if not weight:
            return _shares(held, match.total_blocks)
        return [self._blended(blocks, match, weight) for blocks in held]

    def _blended(self, blocks: float, match: PrefixMatch, weight: float) -> float:
        length = min(1.0, blocks * match.block_size / self._parameters.match_length_scale_tokens)
        return weight * length * length + (1.0 - weight) * min(1.0, blocks / match.total_blocks)


def _shares(held: Sequence[float], total: int) -> Few:
    if type(held) is Counts:
        return Few(held.length, {at: min(1.0, blocks / total) for at, blocks in held.values.items()})
    return Few(len(held), {at: min(1.0, blocks / total) for at, blocks in enumerate(held) if blocks})


def make_precise(name: str, _parameters: PrecisePrefixParameters) -> PrefixCacheScorer:
    return PrefixCacheScorer(name, PrefixCacheParameters(prefix_match_info_producer_name=PRECISE))


TYPES = (
    plugin_type("prefix-cache-scorer", PrefixCacheScorer, PrefixCacheParameters, reads=("prefix",)),
    plugin_type("multicluster-prefix-cache-scorer", PrefixCacheScorer, PrefixCacheParameters, reads=("prefix",)),
    plugin_type(
        "precise-prefix-cache-scorer", make_precise, PrecisePrefixParameters, instead="prefix-cache-scorer"
    ).serving_as("extractor"),
)
