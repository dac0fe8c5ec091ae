"""Parameters of plugins whose own modules are compiled, which classes of values cannot be."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from modelplane.framework.registry import Parameters

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[int, msgspec.Meta(ge=1)]


class ApproxPrefixParameters(Parameters, frozen=True):
    auto_tune: bool = True
    """Take the block size and the number of blocks from the servers' metrics where they have them."""
    block_size_tokens: Size = 16
    block_size: Count = 0
    """Deprecated: the same in characters."""
    max_prefix_tokens_to_match: Count = 131072
    max_prefix_blocks_to_match: Count = 2048
    lru_capacity_per_server: Size = 31250
    prefix_hash_source: Literal["body", "metadata"] = "body"


class PickerParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """How many endpoints the proxy gets, to fall back along; less than 1 counts as 1."""


APPROXIMATE, PRECISE = "approx-prefix-cache-producer", "precise-prefix-cache-producer"
_BYTES_A_TOKEN = 4


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


class PrecisePrefixScorerParameters(Parameters, frozen=True):
    """All of them are the precise producer's."""

    token_processor_config: dict[str, object] | None = None
    indexer_config: dict[str, object] | None = None
    kv_events_config: dict[str, object] | None = None
    speculative_indexing: bool = True
    speculative_ttl: str = msgspec.field(default="2s", name="speculativeTTL")

    def names_producer(self) -> tuple[str, Mapping[str, object]]:
        plain: dict[str, object] = msgspec.to_builtins(self)
        return PRECISE, {name: value for name, value in plain.items() if value is not None}
