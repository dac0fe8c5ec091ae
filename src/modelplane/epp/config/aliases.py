"""Other names of plugin types.

The fleet's picker chooses clusters as a pool's picker chooses servers, by the same plugins; and some types have been
renamed, or taken apart: the scorer of latencies was once its own producer, and kept endpoints near what they hold by
itself, which filters of their own do since.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.epp.flowcontrol.types import TYPES as FLOW
from modelplane.epp.scheduling.declared import TYPES as DECLARED
from modelplane.epp.scheduling.handlers.deciders import AlwaysDecider, PrefixBasedDecider, PrefixBasedParameters
from modelplane.epp.scheduling.handlers.disaggregated import (
    DisaggregatedHandler,
    ProfileNames,
    StageOrder,
    Stages,
    find_decider,
)
from modelplane.epp.scheduling.parameters import ApproxPrefixParameters
from modelplane.epp.scheduling.plugins import Decider
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.producers.hashing import BYTES_A_TOKEN
from modelplane.epp.scheduling.producers.session_parameters import SessionAffinityParameters
from modelplane.epp.scheduling.producers.sessions import SessionAffinityFilter
from modelplane.epp.scheduling.scorers import kv_cache_utilization
from modelplane.epp.scheduling.scorers.latency import HeadroomStrategy, LatencyScorer, LatencyScorerParameters, Weight
from modelplane.framework.registry import Handle, NoParameters, Parameters, PluginType, linked_type, plugin_type

PREDICTED = "predicted-latency-producer"


def _renamed(types: tuple[PluginType, ...], name: str, new: str, replaced_by: str = "") -> PluginType:
    found = next(each for each in types if each.name == name)
    return msgspec.structs.replace(found, name=new, replaced_by=replaced_by)


class DeprecatedStrategy(StrEnum):
    LEAST = "least"
    MOST = "most"
    COMPOSITE_LEAST = "composite-least"
    COMPOSITE_MOST = "composite-most"
    COMPOSITE_ONLY = "composite-only"


class DeprecatedSelection(StrEnum):
    LINEAR = "linear"
    MAX = "max"


class DeprecatedLatencyParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True, omit_defaults=True
):
    """Parameters of the scorer and the producer in one. Other fields are read without effect."""

    headroom_ttft_weight: Weight = msgspec.field(default=0.8, name="headroomTTFTWeight")
    headroom_tpot_weight: Weight = msgspec.field(default=0.2, name="headroomTPOTWeight")
    neg_headroom_ttft_weight: Weight = msgspec.field(default=0.8, name="negHeadroomTTFTWeight")
    neg_headroom_tpot_weight: Weight = msgspec.field(default=0.2, name="negHeadroomTPOTWeight")
    headroom_selection_strategy: DeprecatedStrategy = DeprecatedStrategy.LEAST
    composite_kv_weight: Weight = msgspec.field(default=1.0, name="compositeKVWeight")
    composite_queue_weight: Weight = 1.0
    composite_prefix_weight: Weight = 1.0
    slo_buffer_factor: float | None = None
    context_ttl: int | str | None = msgspec.field(default=None, name="contextTTL")
    streaming_mode: bool | None = None
    endpoint_role_label: str | None = None
    sampling_mean: float | None = None
    max_sampled_tokens: int = 0
    epsilon_explore_sticky: float = 0.01
    epsilon_explore_neg: float = 0.01
    affinity_gate_tau: float = 0.8
    affinity_gate_tau_global: float = 0.99
    affinity_max_ttft_penalty_ms: float = msgspec.field(default=5000.0, name="affinityMaxTTFTPenaltyMs")
    selection_mode: DeprecatedSelection = DeprecatedSelection.LINEAR

    def names_producer(self) -> tuple[str, Mapping[str, object]]:
        given: dict[str, object] = {
            "sloBufferFactor": self.slo_buffer_factor,
            "contextTTL": self.context_ttl,
            "streamingMode": self.streaming_mode,
            "endpointRoleLabel": self.endpoint_role_label,
            "samplingMean": self.sampling_mean,
        }
        return PREDICTED, {name: value for name, value in given.items() if value is not None}


def _deprecated_latency(name: str, old: DeprecatedLatencyParameters) -> LatencyScorer:
    strategy = old.headroom_selection_strategy
    most = strategy in {DeprecatedStrategy.MOST, DeprecatedStrategy.COMPOSITE_MOST}
    new = LatencyScorerParameters(
        ttft_weight=old.headroom_ttft_weight,
        tpot_weight=old.headroom_tpot_weight,
        headroom_selection_strategy=HeadroomStrategy.MOST if most else HeadroomStrategy.LEAST,
        composite_kv_weight=old.composite_kv_weight,
        composite_queue_weight=old.composite_queue_weight,
        composite_prefix_weight=old.composite_prefix_weight,
    )
    return LatencyScorer(name, new, by_latency=not strategy.startswith("composite"))


class PrefillDecodeParameters(Parameters, frozen=True):
    """The flat form of an older handler of stages."""

    decode_profile: str = "decode"
    prefill_profile: str = "prefill"
    prefix_plugin_type: str = ""
    prefix_plugin_name: str = ""
    primary_port: int = 0
    decider_plugin_name: str = ""
    prefix_match_info_producer_name: str = ""
    threshold: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Replaces a decider: prefill runs if at least this many bytes of the prompt are not cached. 0: always."""
    hash_block_size: int = 0
    """Read, and without effect: the index has its own block size."""

    def decider(self, handle: Handle) -> Decider | None:
        if self.threshold is None or self.decider_plugin_name:
            return find_decider(self.decider_plugin_name or "prefix-based-pd-decider", handle)
        if not self.threshold:
            return AlwaysDecider("threshold", NoParameters())
        tokens = max(1, self.threshold // BYTES_A_TOKEN)
        return PrefixBasedDecider("threshold", PrefixBasedParameters(non_cached_tokens=tokens))


def _prefill_decode(name: str, parameters: PrefillDecodeParameters, handle: Handle) -> DisaggregatedHandler:
    names = ProfileNames(decode=parameters.decode_profile, prefill=parameters.prefill_profile, encode="encode")
    return DisaggregatedHandler(name, Stages(StageOrder.DECODE_FIRST, names, parameters.decider(handle), None))


TYPES = (
    linked_type(
        "pd-profile-handler",
        _prefill_decode,
        PrefillDecodeParameters,
        consumes=("prefix",),
        replaced_by="disagg-profile-handler",
    ),
    _renamed(FLOW, "eviction-sheddable-filter", "sheddable-eviction-filter"),
    _renamed(FLOW, "eviction-priority-then-time-ordering", "priority-then-time-eviction-order-policy"),
    _renamed(DECLARED, "core-metrics-extractor", "model-server-protocol-metrics", "core-metrics-extractor"),
    _renamed(
        kv_cache_utilization.TYPES, "kv-cache-utilization-scorer", "kv-cache-scorer", "kv-cache-utilization-scorer"
    ),
    plugin_type(
        "predicted-latency-scorer",
        _deprecated_latency,
        DeprecatedLatencyParameters,
        consumes=("latency", "prefix"),
        replaced_by="latency-scorer",
    ),
    plugin_type("multicluster-session-affinity-filter", SessionAffinityFilter, SessionAffinityParameters),
    plugin_type(
        "multicluster-approx-prefix-cache-producer", ApproxPrefixProducer, ApproxPrefixParameters, produces="prefix"
    ),
)
