"""What vLLM would tell Prometheus, under vLLM's names."""

from collections import Counter
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FINISHED_REASONS = ("stop", "length", "abort")


@dataclass(slots=True)
class Counters:
    """What only grows while an engine lives."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What an engine is doing at the moment of the scrape."""

    running: int
    waiting: int
    kv_usage: float


def exposition(model: str, counters: Counters, gauges: Gauges) -> str:
    labels = f'engine="0",model_name="{_escape(model)}"'
    finished = [
        f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {counters.finished[reason]}'
        for reason in FINISHED_REASONS
    ]
    blocks = (
        *_single("num_requests_running", "gauge", "Requests in the batch.", labels, gauges.running),
        *_single("num_requests_waiting", "gauge", "Requests waiting for a place.", labels, gauges.waiting),
        *_single("kv_cache_usage_perc", "gauge", "KV cache in use; 1 is all of it.", labels, gauges.kv_usage),
        *_single("prompt_tokens_total", "counter", "Prompt tokens read.", labels, counters.prompt_tokens),
        *_single("generation_tokens_total", "counter", "Tokens written.", labels, counters.generation_tokens),
        *_head("request_success_total", "counter", "Requests ended, by reason."),
        *finished,
    )
    return "\n".join(blocks) + "\n"


def _single(name: str, kind: str, text: str, labels: str, value: float) -> tuple[str, ...]:
    return (*_head(name, kind, text), f"vllm:{name}{{{labels}}} {value}")


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
