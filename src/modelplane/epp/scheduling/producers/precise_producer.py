"""The producer of the precise prefix index. The KV event subscriber feeds `index`.

It needs prompts in the tokens of the engines' own tokenizer, from `TOKENS` in the cycle state or from the request.
Without tokens there is no match: estimated tokens would never match the engines' blocks.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.approx_producer import computing
from modelplane.epp.scheduling.producers.kv_events import GPU
from modelplane.epp.scheduling.producers.precise import SLOW_TIER_WEIGHT, PreciseIndex
from modelplane.epp.scheduling.producers.prefix import TOKENS, prefix_of, put_prefix, read_prefix, write_prefix
from modelplane.epp.scheduling.units import Duration
from modelplane.framework.registry import Parameters, plugin_type

_NOTHING: Mapping[str, object] = {}


class HashAlgorithm(StrEnum):
    CBOR_FNV = "cbor-fnv"
    XXH64 = "xxh64"


class TokenProcessor(Parameters, frozen=True):
    block_size_tokens: Annotated[int, msgspec.Meta(ge=1)] = 16
    """Used until the engines report theirs."""
    block_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The old name of the field above."""
    hash_seed: str = ""
    hash_algorithm: HashAlgorithm = HashAlgorithm.XXH64
    """Read, as `hashSeed` is, and without effect: hashes never leave the picker."""


class Tier(Parameters, frozen=True):
    name: str
    weight: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Indexer(Parameters, frozen=True):
    kv_cache_backend_configs: tuple[Tier, ...] = ()
    """Weights of tiers. Blocks on the GPU count in full, and all slower tiers have one weight."""
    token_processor_config: TokenProcessor | None = None
    """Its older position in the parameters."""
    kv_block_index_config: Mapping[str, object] | None = None
    prefix_store_config: Mapping[str, object] | None = None
    tokenizers_pool_config: Mapping[str, object] | None = None
    """Read, as the two fields before it are, and without effect: there is one kind of index, without a tokenizer."""

    @property
    def slow_weight(self) -> float:
        """Of blocks that are not on the GPU."""
        tiers = self.kv_cache_backend_configs
        if any(tier.name.lower() == GPU and tier.weight != 1.0 for tier in tiers):
            raise InputError(
                "indexerConfig.kvCacheBackendConfigs: blocks on the GPU count in full; its weight must be 1"
            )
        weights = {tier.weight for tier in tiers if tier.name.lower() != GPU}
        if len(weights) > 1:
            raise InputError("indexerConfig.kvCacheBackendConfigs: tiers other than gpu must have one weight")
        return next(iter(weights), SLOW_TIER_WEIGHT)


class PrecisePrefixProducerParameters(Parameters, frozen=True):
    token_processor_config: TokenProcessor | None = None
    indexer_config: Indexer = Indexer()
    kv_events_config: Mapping[str, object] = _NOTHING
    """For the KV event subscriber."""
    speculative_indexing: bool = True
    """Take an endpoint to hold a prompt as soon as it is sent there, until it reports the prompt's last block."""
    speculative_ttl: Duration = msgspec.field(default=Duration(2.0), name="speculativeTTL")
    """How long, where no such report comes."""

    @property
    def block_size(self) -> int:
        tokens = self.token_processor_config or self.indexer_config.token_processor_config or TokenProcessor()
        return tokens.block_size or tokens.block_size_tokens


class PrecisePrefixProducer:
    def __init__(self, name: str, parameters: PrecisePrefixProducerParameters | None = None) -> None:
        self.name = name
        self.parameters = parameters or PrecisePrefixProducerParameters()
        self.index = PreciseIndex(self.parameters.block_size, slow_weight=self.parameters.indexer_config.slow_weight)

    def produce(self, context: SchedulingContext) -> None:
        request = context.request
        prompts = context.get(TOKENS) or request.token_ids
        if not prompts:
            return
        self.index.forget_guesses(context.now_s)
        put_prefix(context, self.name, self.index.match(prompts, context.endpoints, request.model, request.salt))

    def capture(self, context: SchedulingContext) -> object:
        return write_prefix(context, self.name)

    def restore(self, context: SchedulingContext, captured: object) -> None:
        read_prefix(context, self.name, captured)

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        match = prefix_of(context, self.name)
        if self.parameters.speculative_indexing and match is not None:
            for endpoint in computing(decision):
                self.index.guess(endpoint, match, context.now_s + self.parameters.speculative_ttl)
        return ()

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        self.index.keep(endpoints)


TYPES = (
    plugin_type(
        "precise-prefix-cache-producer", PrecisePrefixProducer, PrecisePrefixProducerParameters, produces="prefix"
    ),
)
