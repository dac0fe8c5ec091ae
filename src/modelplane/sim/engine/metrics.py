"""Prometheus metrics under vLLM's names."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from modelplane.sim.engine.stats import EngineHistogram, EngineStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FINISHED_REASONS = ("stop", "length", "abort", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineGauges:
    """The state of an engine at a scrape. `loading` of the waiting requests have cache being copied."""

    running: int = 0
    waiting: int = 0
    loading: int = 0
    kv_usage: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraGauge:
    """Adapters in the batch and in the queue; `at` is the moment, in seconds since the epoch."""

    max_loras: int
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfigInfo:
    block_size: int
    blocks: int
    prefix_caching: bool


def exposition(
    model: str, stats: EngineStats, gauges: EngineGauges, cache: CacheConfigInfo, lora: LoraGauge | None = None
) -> str:
    labels = f'engine="0",model_name="{_escape(model)}"'
    lines = (
        *_gauges(labels, gauges),
        *_counters(labels, stats),
        *_histograms(labels, stats),
        *_info(cache),
        *(_lora(lora) if lora is not None else ()),
    )
    return "\n".join(lines) + "\n"


def _gauges(labels: str, gauges: EngineGauges) -> Iterator[str]:
    yield from _single("num_requests_running", "gauge", "Running requests.", labels, gauges.running)
    yield from _single("num_requests_waiting", "gauge", "Waiting requests.", labels, gauges.waiting)
    reasons = {"capacity": gauges.waiting - gauges.loading, "deferred": gauges.loading}
    yield from _labelled(
        "num_requests_waiting_by_reason", "gauge", "Waiting requests by reason.", labels, "reason", reasons.items()
    )
    yield from _single("kv_cache_usage_perc", "gauge", "KV cache usage; 1 is full.", labels, gauges.kv_usage)


def _counters(labels: str, stats: EngineStats) -> Iterator[str]:
    for name, text, value in (
        ("prefix_cache_queries", "Prompt tokens queried in the prefix cache.", stats.cache_queries),
        ("prefix_cache_hits", "Prompt tokens found in the prefix cache.", stats.cache_hits),
        ("external_prefix_cache_queries", "Prompt tokens queried on other engines.", stats.remote_queries),
        ("external_prefix_cache_hits", "Prompt tokens copied from other engines.", stats.remote_hits),
        ("num_preemptions", "Preempted sequences.", stats.preemptions),
        ("prompt_tokens", "Prompt tokens processed.", stats.prompt_tokens),
        ("generation_tokens", "Tokens written.", stats.generation_tokens),
    ):
        yield from _single(f"{name}_total", "counter", text, labels, value)
    finished = [(reason, stats.finished_by[reason]) for reason in FINISHED_REASONS]
    text = "Finished requests by reason."
    yield from _labelled("request_success_total", "counter", text, labels, "finished_reason", finished)


def _histograms(labels: str, stats: EngineStats) -> Iterator[str]:
    for name, text, histogram in (
        ("time_to_first_token_seconds", "From arrival to the first token.", stats.first_token),
        ("inter_token_latency_seconds", "From one token to the next.", stats.between_tokens),
        ("request_time_per_output_token_seconds", "Mean time a token after the first.", stats.per_token),
        ("e2e_request_latency_seconds", "From arrival to the last token.", stats.whole),
        ("request_queue_time_seconds", "From arrival to the first step.", stats.queued),
        ("request_inference_time_seconds", "From the first step to the last token.", stats.inference),
        ("request_prefill_time_seconds", "From the first step to the first token.", stats.prefill),
        ("request_decode_time_seconds", "From the first token to the last.", stats.decode),
        ("request_prompt_tokens", "Prompt tokens of a request.", stats.prompt_lengths),
        ("request_generation_tokens", "Generated tokens of a request.", stats.answer_lengths),
        ("request_params_max_tokens", "max_tokens of requests.", stats.max_tokens_lengths),
        ("request_params_n", "n of requests.", stats.choices),
        ("iteration_tokens_total", "Tokens computed in a step.", stats.step_tokens),
    ):
        yield from _head(name, "histogram", text)
        yield from _buckets(name, labels, histogram)


def _buckets(name: str, labels: str, histogram: EngineHistogram) -> Iterator[str]:
    sums = list(accumulate(histogram.counts))
    for bound, count in zip(histogram.bounds, sums, strict=False):
        yield f'vllm:{name}_bucket{{{labels},le="{float(bound)}"}} {count}'
    yield f'vllm:{name}_bucket{{{labels},le="+Inf"}} {sums[-1]}'
    yield f"vllm:{name}_sum{{{labels}}} {histogram.total}"
    yield f"vllm:{name}_count{{{labels}}} {sums[-1]}"


def _info(cache: CacheConfigInfo) -> Iterator[str]:
    labels = (
        f'block_size="{cache.block_size}",enable_prefix_caching="{cache.prefix_caching}",engine="0",'
        f'num_gpu_blocks="{cache.blocks}"'
    )
    yield from _single("cache_config_info", "gauge", "Configuration of the KV cache.", labels, 1)


def _lora(lora: LoraGauge) -> Iterator[str]:
    labels = (
        f'max_lora="{lora.max_loras}",running_lora_adapters="{_escape(",".join(lora.running))}",'
        f'waiting_lora_adapters="{_escape(",".join(lora.waiting))}"'
    )
    yield from _single("lora_requests_info", "gauge", "Adapters in use; the value is the time.", labels, lora.at)


def _labelled(
    name: str, kind: str, text: str, labels: str, label: str, values: Iterable[tuple[str, float]]
) -> Iterator[str]:
    yield from _head(name, kind, text)
    for value, number in values:
        yield f'vllm:{name}{{{labels},{label}="{value}"}} {number}'


def _single(name: str, kind: str, text: str, labels: str, value: float) -> tuple[str, ...]:
    return (*_head(name, kind, text), f"vllm:{name}{{{labels}}} {value}")


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
