"""Counters and histograms of an engine, for its metrics."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from modelplane.sim.engine.sequence import Sequence

# The upper bounds that vLLM uses, so that dashboards and quantiles made for it hold.
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
TOKEN_LATENCY_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
STEP_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHOICES_BUCKETS = (1, 2, 5, 10, 20)


def token_buckets(most: int) -> tuple[int, ...]:
    """1, 2, 5, 10, … up to the longest context."""
    values = (mantissa * 10**power for power in range(12) for mantissa in (1, 2, 5))
    return tuple(value for value in values if value <= most)


class EngineHistogram:
    """Counts of values by upper bound, with their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


def _of_requests() -> EngineHistogram:
    return EngineHistogram(REQUEST_LATENCY_BUCKETS)


@dataclass(slots=True)
class EngineStats:
    """Monotonic while an engine lives. Times are as a client would measure them."""

    max_model_len: int
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    remote_queries: int = 0
    remote_hits: int = 0
    preemptions: int = 0
    finished_by: Counter[str] = field(default_factory=Counter)
    first_token: EngineHistogram = field(default_factory=lambda: EngineHistogram(TTFT_BUCKETS))
    between_tokens: EngineHistogram = field(default_factory=lambda: EngineHistogram(TOKEN_LATENCY_BUCKETS))
    per_token: EngineHistogram = field(default_factory=lambda: EngineHistogram(TOKEN_LATENCY_BUCKETS))
    whole: EngineHistogram = field(default_factory=_of_requests)
    queued: EngineHistogram = field(default_factory=_of_requests)
    inference: EngineHistogram = field(default_factory=_of_requests)
    prefill: EngineHistogram = field(default_factory=_of_requests)
    decode: EngineHistogram = field(default_factory=_of_requests)
    step_tokens: EngineHistogram = field(default_factory=lambda: EngineHistogram(STEP_BUCKETS))
    choices: EngineHistogram = field(default_factory=lambda: EngineHistogram(CHOICES_BUCKETS))
    prompt_lengths: EngineHistogram = field(init=False)
    answer_lengths: EngineHistogram = field(init=False)
    max_tokens_lengths: EngineHistogram = field(init=False)

    def __post_init__(self) -> None:
        bounds = token_buckets(self.max_model_len)
        self.prompt_lengths = EngineHistogram(bounds)
        self.answer_lengths = EngineHistogram(bounds)
        self.max_tokens_lengths = EngineHistogram(bounds)

    def received(self, *, choices: int, max_tokens: int | None) -> None:
        self.choices.observe(choices)
        if max_tokens is not None:
            self.max_tokens_lengths.observe(max_tokens)

    def admitted(self, sequence: Sequence) -> None:
        self.cache_queries += len(sequence.prompt)
        self.cache_hits += sequence.cached

    def fetched(self, sequence: Sequence, copied: int) -> None:
        self.remote_queries += len(sequence.prompt) - sequence.cached
        self.remote_hits += copied

    def preempted(self) -> None:
        self.preemptions += 1

    def step(self, tokens: int, repeats: int, *, decoded: int, seconds: float) -> None:
        """A step, or several equal ones; `decoded` sequences also got a token in the step before."""
        self.step_tokens.observe(tokens, repeats)
        if decoded:
            self.generation_tokens += decoded * repeats
            self.between_tokens.observe(seconds / repeats, decoded * repeats)

    def irregular_token(self, sequence: Sequence, now: float) -> None:
        """A first token, or one after a step that had none for the sequence."""
        if sequence.first_token is None:
            sequence.first_token = now
            self.prompt_tokens += len(sequence.prompt)
            if sequence.answer:
                self.first_token.observe(max(0.0, now - sequence.arrived))
        else:
            self.between_tokens.observe(max(0.0, now - sequence.last_token))
        if sequence.answer:
            self.generation_tokens += 1

    def aborted(self) -> None:
        self.finished_by["abort"] += 1

    def failed(self) -> None:
        self.finished_by["error"] += 1

    def finished(self, sequence: Sequence, now: float) -> None:
        self.finished_by[sequence.reason] += 1
        scheduled = sequence.arrived if sequence.scheduled is None else sequence.scheduled
        first = now if sequence.first_token is None else sequence.first_token
        self.whole.observe(max(0.0, now - sequence.arrived))
        self.queued.observe(max(0.0, scheduled - sequence.arrived))
        self.inference.observe(now - scheduled)
        self.prefill.observe(first - scheduled)
        self.decode.observe(now - first)
        self.prompt_lengths.observe(len(sequence.prompt))
        self.answer_lengths.observe(sequence.emitted)
        if sequence.emitted > 1:
            self.per_token.observe((now - first) / (sequence.emitted - 1))
