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


class ActiveRequestParameters(Parameters, frozen=True):
    idle_threshold: Count = 0
    max_busy_score: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 1.0
    min_scale_requests: Count = 0
    max_scale_requests: Count = 0
    """0: no limit."""
    request_timeout: str = ""
    """Accepted and not used: what is in flight is known, not guessed by time."""
    in_flight_load_producer_name: str = ""


class InFlightParameters(Parameters, frozen=True):
    add_estimated_output_tokens: bool = False
    output_ratio: Annotated[float, msgspec.Meta(ge=0.0)] = 1.5
    """Output tokens expected for each token of the prompt."""
    max_estimated_output_tokens: Count = 0
    """0: no limit."""
    prefix_match_info_producer_name: str = ""
    sync_cross_replica_state: bool = True
    """Whether pickers of one pool share what they count, where they know each other (`--peers`)."""


class NoHitLruParameters(Parameters, frozen=True):
    lru_size: Size = 1024
    """Endpoints that are kept in order."""
    prefix_match_info_producer_name: str = ""
    prefix_plugin_name: str = ""
    """The old name of the field above."""
    prefix_plugin_type: str = ""
    """Read, and without effect: a name is enough."""


class NoHitTokensParameters(Parameters, frozen=True):
    prefix_match_info_producer_name: str = ""


class FailingParameters(Parameters, frozen=True):
    threshold: Size = 5
    probe_probability: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.01
