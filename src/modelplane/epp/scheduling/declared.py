"""Plugin types that take no part in decisions: their parameters are validated here and read by other components.

The server has parsers, sources, extractors and discovery. The last group has types of the ecosystem without an
implementation here: a configuration with one of them loads, with a warning that it has no effect.
"""

from typing import Annotated, Literal

import msgspec

from modelplane.epp.scheduling.topology import HOST, RACK, REGION, ZONE
from modelplane.epp.scheduling.units import Duration
from modelplane.framework.registry import NoParameters, Parameters, declared_type

INERT = "without effect"

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Objects = tuple[dict[str, object], ...]


class ScrapeParameters(Parameters, frozen=True):
    """How the pages of servers are read."""

    scheme: Literal["http", "https"] = "http"
    path: str = ""
    """Empty: the usual path of the source."""
    port: Port | None = None
    insecure_skip_verify: bool = True
    ca_cert_path: str = ""
    client_cert_path: str = ""
    client_key_path: str = ""
    interval: Duration | None = None


class DcgmParameters(Parameters, frozen=True):
    scheme: Literal["http", "https"] = "http"
    path: str = "/metrics"
    port: Port = 9400
    insecure_skip_verify: bool = True
    use_node_address: bool = False
    interval: Duration | None = None


class CustomMetric(Parameters, frozen=True):
    attribute_key: str
    metric_spec: str


class EngineMetrics(Parameters, frozen=True):
    """The metric names of an engine; empty: its defaults."""

    name: str
    queued_requests_spec: str = ""
    running_requests_spec: str = ""
    kv_usage_spec: str = ""
    lora_spec: str = ""
    cache_info_spec: str = ""
    cache_block_size_label_name: str = ""
    cache_num_blocks_label_name: str = ""
    cache_block_size_spec: str = ""
    cache_num_blocks_spec: str = ""
    custom_metrics: tuple[CustomMetric, ...] = ()


class CoreMetricsParameters(Parameters, frozen=True):
    engine_label_key: str = "llm-d.ai/engine-type"
    default_engine: str = "vllm"
    engine_configs: tuple[EngineMetrics, ...] = ()
    custom_metrics: tuple[CustomMetric, ...] = ()


class TopologyExtractorParameters(Parameters, frozen=True):
    hostname: str = HOST
    rack: str = RACK
    zone: str = ZONE
    region: str = REGION


class KindParameters(Parameters, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class FileDiscoveryParameters(Parameters, frozen=True):
    path: str
    watch_file: bool = False


class VllmTokenizer(Parameters, frozen=True):
    url: str = "http://localhost:8000"
    http: str = ""
    """The old name of `url`."""
    timeout: Duration = Duration(5)
    mm_timeout: Duration = Duration(30)


class TokenParameters(Parameters, frozen=True):
    model_name: str = ""
    vllm: VllmTokenizer | None = None
    """None: four bytes count as a token."""
    estimate: dict[str, object] | None = None
    uds_tokenizer_config: dict[str, object] | None = None


class AgentIdentityParameters(Parameters, frozen=True):
    additional_session_headers: tuple[str, ...] = ()


class ReporterParameters(Parameters, frozen=True):
    attributes: Objects = ()


class RolloutParameters(Parameters, frozen=True):
    scope: object = None
    header_selectors: Objects = ()
    revision_gating: dict[str, object] | None = None


class BurstParameters(Parameters, frozen=True):
    window_duration_ms: int = 100
    max_per_replica: int = -1
    block_size_tokens: int = 64
    max_prefix_tokens_to_match: int = 131072
    min_colocate_blocks: int = 0
    max_batch_size: int = 1000
    balance_by: Literal["requests", "tokens"] = "requests"


class MultimodalCacheParameters(Parameters, frozen=True):
    cache_size_in_mb_per_server: int = msgspec.field(default=4096, name="cacheSizeInMBPerServer")
    cache_size_in_mb: int = msgspec.field(default=0, name="cacheSizeInMB")


class DisaggregationHeaderParameters(Parameters, frozen=True):
    prefill_profile: str = "prefill"
    encode_profile: str = "encode"


class TurnQueue(Parameters, frozen=True):
    session_type: str = ""
    initial_log_mean: float | None = None
    initial_log_std: float | None = None


class InterTurnParameters(Parameters, frozen=True):
    session_type_header: str = "x-session-type"
    queues: tuple[TurnQueue, ...] = ()
    initial_log_mean: float = 2.28
    initial_log_std: float = 1.34
    ema_factor: float = 0.1
    min_samples: int = 20
    window_size: int = 200
    min_interval: Duration = Duration(0.1)
    max_idle: Duration = Duration(3600)
    max_sessions: int = 100_000


class Retention(Parameters, frozen=True):
    quantile: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.9
    min_ttl: Duration = msgspec.field(default=Duration(1), name="minTTL")
    max_ttl: Duration = msgspec.field(default=Duration(600), name="maxTTL")
    priority: Annotated[int, msgspec.Meta(ge=0, le=100)] = 70


class RetentionQueue(Parameters, frozen=True):
    session_type: str = ""
    retain: Retention | None = None


class CacheHintParameters(Parameters, frozen=True):
    parent_session_header: str = "x-parent-session-id"
    queues: tuple[RetentionQueue, ...] = ()


class BoundedCacheHintParameters(CacheHintParameters, frozen=True):
    max_protected_prefix_tokens: int = 16_384
    protection_budget_tokens: int = 1_000_000


class PoolMetricsParameters(Parameters, frozen=True):
    kv_cache_utilization_metric: str = ""
    queue_size_metric: str = ""


_PARSERS = (
    "openai-parser",
    "anthropic-parser",
    "vllmhttp-parser",
    "sglanghttp-parser",
    "vllmgrpc-parser",
    "vertexai-parser",
    "passthrough-parser",
)

TYPES = (
    *(declared_type(name, "parser") for name in _PARSERS),
    declared_type("metrics-data-source", "source", ScrapeParameters),
    declared_type("models-data-source", "source", ScrapeParameters),
    declared_type("dcgm-data-source", "source", DcgmParameters),
    declared_type("endpoint-notification-source", "source"),
    declared_type("k8s-notification-source", "source", KindParameters),
    declared_type("multicluster-metrics-data-source", "source", ScrapeParameters),
    declared_type("core-metrics-extractor", "extractor", CoreMetricsParameters),
    declared_type("models-data-extractor", "extractor"),
    declared_type("dcgm-extractor", "extractor"),
    declared_type("topology-extractor", "extractor", TopologyExtractorParameters),
    declared_type("multicluster-metrics-extractor", "extractor", PoolMetricsParameters),
    declared_type("file-discovery", "discovery", FileDiscoveryParameters),
    declared_type("multicluster-file-discovery", "discovery", FileDiscoveryParameters),
    declared_type("token-producer", "tokens", TokenParameters),
    declared_type("tokenizer", "tokens", TokenParameters, replaced_by="token-producer"),
    declared_type("agent-identity", "identity", AgentIdentityParameters),
    declared_type("destination-endpoint-served-verifier", "verifier"),
    declared_type(
        "disagg-headers-handler", INERT, DisaggregationHeaderParameters, replaced_by="disagg-profile-handler"
    ),
    declared_type(
        "prefill-header-handler", INERT, DisaggregationHeaderParameters, replaced_by="disagg-profile-handler"
    ),
    declared_type("request-attribute-reporter", INERT, ReporterParameters),
    declared_type("disaggregatedset-rollout-screener", INERT, RolloutParameters),
    declared_type("burst-prefix-cache-producer", INERT, BurstParameters),
    declared_type("mm-embeddings-cache-producer", INERT, MultimodalCacheParameters).serving_as("extractor"),
    declared_type("models-responder", INERT),
    declared_type("dp-rank-header-handler", INERT),
    declared_type("outlen-bucket", INERT),
    declared_type("session-interturn-latency-producer", INERT, InterTurnParameters),
    declared_type("kv-cache-hint", INERT, CacheHintParameters),
    declared_type("kv-cache-hint-v2", INERT, BoundedCacheHintParameters),
    declared_type("local-syncer", "syncer", NoParameters),
)
