"""The metric names of each engine.

A server's kind is written in a label of its pod; servers without one are taken for vLLM. The names are those of the
ecosystem's own extractor, and its parameters (`core-metrics-extractor`) are read as they are written there.

Two things differ on purpose. Servers with data-parallel ranks show one series a rank: requests are added up over the
ranks and the fullest cache counts, where the ecosystem reads one rank and ignores the others. And Triton's
`nv_inference_exec_count`, which counts executions since the server started, is not taken for requests that run now.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from modelplane.epp.scheduling.declared import CoreMetricsParameters, CustomMetric, EngineMetrics

ENGINE_LABEL = "llm-d.ai/engine-type"
LEGACY_ENGINE_LABEL = "inference.networking.k8s.io/engine-type"
DEFAULT_ENGINE = "vllm"

_SPEC = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{([^{}]*)\})?\s*")
_MATCH = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:"([^"]*)"|([^\s",]+))\s*""")


class MetricFamily(msgspec.Struct, frozen=True):
    """A family of series, and the labels that they must have."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


class EngineMetricNames(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of an engine. None: it has none."""

    name: str
    waiting: MetricFamily | None = None
    running: MetricFamily | None = None
    kv_use: MetricFamily | None = None
    adapters: MetricFamily | None = None
    cache_info: MetricFamily | None = None
    """A series whose labels are the numbers of the cache."""
    block_size_label: str = "block_size"
    blocks_label: str = "num_gpu_blocks"
    block_size: MetricFamily | None = None
    blocks: MetricFamily | None = None
    ranks: tuple[str, ...] = ("engine", "dp_rank")
    """Labels that separate independent parts of one server. Series with equal values of them are duplicates."""
    path: str = "/metrics"
    """Where its page is."""
    others: tuple[tuple[str, MetricFamily], ...] = ()
    """Numbers beyond those, by the attribute of the endpoint that shows them."""

    @property
    def metrics(self) -> tuple[MetricFamily, ...]:
        """All metrics that are read."""
        load = (self.waiting, self.running, self.kv_use, self.adapters)
        cache = (self.cache_info, self.block_size, self.blocks)
        return tuple(metric for metric in (*load, *cache, *(other for _, other in self.others)) if metric is not None)


def _trt(kind: str) -> MetricFamily:
    return MetricFamily("nv_trt_llm_kv_cache_block_metrics", (("kv_cache_block_type", kind),))


_VLLM = EngineMetricNames(
    name="vllm",
    waiting=MetricFamily("vllm:num_requests_waiting"),
    running=MetricFamily("vllm:num_requests_running"),
    kv_use=MetricFamily("vllm:kv_cache_usage_perc"),
    adapters=MetricFamily("vllm:lora_requests_info"),
    cache_info=MetricFamily("vllm:cache_config_info"),
)
BUILT_IN: tuple[EngineMetricNames, ...] = (
    _VLLM,
    msgspec.structs.replace(_VLLM, name="nim", path="/v1/metrics"),
    EngineMetricNames(
        name="sglang",
        waiting=MetricFamily("sglang:num_queue_reqs"),
        running=MetricFamily("sglang:num_running_reqs"),
        kv_use=MetricFamily("sglang:token_usage"),
        cache_info=MetricFamily("sglang:cache_config_info"),
        block_size_label="page_size",
        blocks_label="num_pages",
    ),
    EngineMetricNames(
        name="trtllm-serve",
        path="/prometheus/metrics",
        waiting=MetricFamily("trtllm_num_requests_waiting"),
        running=MetricFamily("trtllm_num_requests_running"),
        kv_use=MetricFamily("trtllm_kv_cache_utilization"),
        block_size=MetricFamily("trtllm_kv_cache_tokens_per_block"),
        blocks=MetricFamily("trtllm_kv_cache_max_blocks"),
    ),
    EngineMetricNames(
        name="triton-tensorrt-llm",
        waiting=MetricFamily("nv_trt_llm_request_metrics", (("request_type", "waiting"),)),
        running=MetricFamily("nv_trt_llm_request_metrics", (("request_type", "scheduled"),)),
        kv_use=_trt("fraction"),
        block_size=_trt("tokens_per"),
        blocks=_trt("max"),
        ranks=("model", "version"),
    ),
    EngineMetricNames(
        name="triton", waiting=MetricFamily("nv_inference_pending_request_count"), ranks=("model", "version")
    ),
    EngineMetricNames(
        name="llama.cpp",
        waiting=MetricFamily("llamacpp:requests_deferred"),
        running=MetricFamily("llamacpp:requests_processing"),
    ),
    EngineMetricNames(
        name="tgi", waiting=MetricFamily("tgi_queue_size"), running=MetricFamily("tgi_batch_current_size")
    ),
    EngineMetricNames(name="tei", waiting=MetricFamily("te_queue_size")),
    EngineMetricNames(
        name="picker",
        waiting=MetricFamily("llm_d_epp_average_queue_size"),
        running=MetricFamily("llm_d_epp_average_running_requests"),
        kv_use=MetricFamily("llm_d_epp_average_kv_cache_utilization"),
        ranks=("name",),
    ),
)
"""`picker` is a whole cluster, seen through the averages that its picker shows. `nim` is NIM 2, which runs vLLM.

trtllm-serve has such a page with `return_perf_metrics: true` in its options; its `/metrics` is JSON.
"""


class BadEngine(ValueError):  # noqa: N818 - an outcome of reading a configuration
    """Parameters that do not describe servers, with the field that is wrong."""


class Engines:
    """The known engines, and the engine of each endpoint."""

    def __init__(
        self,
        engines: Sequence[EngineMetricNames] = BUILT_IN,
        *,
        label: str = ENGINE_LABEL,
        default: str = DEFAULT_ENGINE,
    ) -> None:
        self._by_name = {engine.name: engine for engine in engines}
        self._label = label
        if default not in self._by_name:
            raise BadEngine(f"defaultEngine: {default!r} is none of {', '.join(sorted(self._by_name))}")
        self._default = self._by_name[default]

    def of(self, labels: Mapping[str, str]) -> EngineMetricNames:
        """An unknown engine is read as the default: some of the metrics may exist."""
        named = labels.get(self._label) or labels.get(LEGACY_ENGINE_LABEL)
        return self._by_name.get(named, self._default) if named else self._default


def engines_from(parameters: CoreMetricsParameters) -> Engines:
    """The engines of a `core-metrics-extractor`, and built-in ones of other names. An omitted spec is not read."""
    everywhere = tuple(_other(one, f"customMetrics[{at}]") for at, one in enumerate(parameters.custom_metrics))
    configs = parameters.engine_configs
    engines = [_engine(config, f"engineConfigs[{at}]") for at, config in enumerate(configs)]
    names = [engine.name for engine in engines]
    for at, name in enumerate(names):
        if not name or name in names[:at]:
            raise BadEngine(f"engineConfigs[{at}].name: {name!r} is empty or given twice")
    known = [*engines, *(engine for engine in BUILT_IN if engine.name not in names)]
    shown = [msgspec.structs.replace(engine, others=(*engine.others, *everywhere)) for engine in known]
    return Engines(shown, label=parameters.engine_label_key, default=parameters.default_engine)


def metric_of(spec: str, place: str = "metric") -> MetricFamily | None:
    """`name` or `name{label=value,…}`; empty: none."""
    if not spec.strip():
        return None
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise BadEngine(f"{place}: {spec!r} is no metric name with labels in braces")
    name, inside = found.groups()
    return MetricFamily(name, tuple(_labels(inside, place)) if inside and inside.strip() else ())


def _labels(inside: str, place: str) -> list[tuple[str, str]]:
    labels = []
    for part in inside.split(","):
        found = _MATCH.fullmatch(part)
        if found is None:
            raise BadEngine(f"{place}: {part.strip()!r} is no label=value")
        labels.append((found[1], found[2] if found[2] is not None else found[3]))
    return labels


def _engine(config: EngineMetrics, place: str) -> EngineMetricNames:
    return EngineMetricNames(
        name=config.name,
        waiting=metric_of(config.queued_requests_spec, f"{place}.queuedRequestsSpec"),
        running=metric_of(config.running_requests_spec, f"{place}.runningRequestsSpec"),
        kv_use=metric_of(config.kv_usage_spec, f"{place}.kvUsageSpec"),
        adapters=metric_of(config.lora_spec, f"{place}.loraSpec"),
        cache_info=metric_of(config.cache_info_spec, f"{place}.cacheInfoSpec"),
        block_size_label=config.cache_block_size_label_name or "block_size",
        blocks_label=config.cache_num_blocks_label_name or "num_gpu_blocks",
        block_size=metric_of(config.cache_block_size_spec, f"{place}.cacheBlockSizeSpec"),
        blocks=metric_of(config.cache_num_blocks_spec, f"{place}.cacheNumBlocksSpec"),
        others=tuple(_other(one, f"{place}.customMetrics[{at}]") for at, one in enumerate(config.custom_metrics)),
    )


def _other(custom: CustomMetric, place: str) -> tuple[str, MetricFamily]:
    metric = metric_of(custom.metric_spec, f"{place}.metricSpec")
    if metric is None or not custom.attribute_key:
        raise BadEngine(f"{place}: needs an attributeKey and a metricSpec")
    return custom.attribute_key, metric
