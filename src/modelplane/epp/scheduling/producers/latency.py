"""How long an endpoint would take: the time to a first token and the time for each further one, learned as it serves.

Each endpoint has two regressions (see `regression`), over what is known before the request is sent: uncached tokens,
requests waiting and running, KV cache utilization, tokens in flight. Endpoints of one pool are similar, so the pool has
two regressions as well, which serve endpoints with too few samples. Before the pool has enough samples there is no
prediction, and readers must do without.

The headroom is the client's goal, times a factor, less the prediction; without a goal it is unbounded.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.prefix import any_held, prefix_of
from modelplane.epp.scheduling.producers.regression import LEAST_SAMPLES, Regression
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.units import Duration, decode
from modelplane.framework import StateKey
from modelplane.framework.registry import Parameters, plugin_type

NO_GOAL = float("inf")
_TTFT_FEATURES = 6
_TPOT_FEATURES = 4
_MAX_PENDING = 100_000
_OK = range(200, 300)


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """The prediction for one endpoint. Headrooms are infinite if the client has no SLO."""

    ttft_s: float
    tpot_s: float
    ttft_headroom_s: float
    tpot_headroom_s: float
    confidence: float
    """In [0, 1]."""


class PredictionFacts(msgspec.Struct, frozen=True, array_like=True):
    """A prediction as it is written down; JSON has no infinity, so no goal is None."""

    ttft_s: float
    tpot_s: float
    ttft_headroom_s: float | None
    tpot_headroom_s: float | None
    confidence: float


LATENCY: StateKey[Sequence[Prediction | None]] = StateKey("latency")
"""A prediction for each endpoint of the cycle; None: not enough was seen."""


class LatencyProducerParameters(Parameters, frozen=True):
    slo_buffer_factor: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0
    context_ttl: int | str = msgspec.field(default="5m", name="contextTTL")
    """How long the end of a request is waited for before it is not learned from. A number is in nanoseconds."""
    streaming_mode: bool = False
    """Learn from the first byte and the tokens of streams; else from the reported start or end of the response."""
    endpoint_role_label: str = ""
    """Read, and without effect: each endpoint has its own regressions, independent of its role."""
    predict_in_produce: bool = True
    predict_in_prepare_data: bool = True
    prefix_match_info_producer_name: str = ""
    in_flight_load_producer_name: str = ""
    use_encoder_cache_features: bool = False
    encoder_cache_match_info_producer_name: str = ""
    sampling_mean: float = 1000.0
    max_decode_token_samples_for_prediction: int = 0
    """Read, as the eight before it are, and without effect: there is one in-flight count, and no such features."""

    @property
    def context_ttl_s(self) -> float:
        return self.context_ttl / 1e9 if isinstance(self.context_ttl, int) else duration_s(self.context_ttl)

    def __post_init__(self) -> None:
        if self.context_ttl_s <= 0.0:
            raise ValueError(f"contextTTL is {self.context_ttl}; it must be more than 0")


class _Lines:
    """The regressions of one endpoint, or of the pool."""

    __slots__ = ("tpot", "ttft")

    def __init__(self) -> None:
        self.ttft = Regression(_TTFT_FEATURES)
        self.tpot = Regression(_TPOT_FEATURES)


class _Pending(msgspec.Struct, frozen=True, eq=False):
    endpoint: Endpoint
    ttft_features: tuple[float, ...]
    tpot_features: tuple[float, ...]
    sent_s: float


class LatencyProducer:
    def __init__(self, name: str, parameters: LatencyProducerParameters | None = None) -> None:
        self.name = name
        self._parameters = parameters or LatencyProducerParameters()
        self._context_ttl_s = self._parameters.context_ttl_s
        self._pool = _Lines()
        self._endpoints: dict[Endpoint, _Lines] = {}
        self._pending: dict[Request, _Pending] = {}
        self._before: StateKey[Sequence[int]] = StateKey(f"{name}: tokens in flight")

    @property
    def reads_bodies(self) -> bool:
        return self._parameters.streaming_mode

    def produce(self, context: SchedulingContext) -> None:
        # Once sent, the request itself counts as in flight; training and prediction must use the same features.
        context.put(self._before, [endpoint.tokens_in_flight for endpoint in context.endpoints])
        if self._parameters.predict_in_produce:
            context.put(LATENCY, self.predict(context))

    def capture(self, context: SchedulingContext) -> object:
        found = context.get(LATENCY)
        return None if found is None else [None if one is None else _written(one) for one in found]

    def restore(self, context: SchedulingContext, captured: object) -> None:
        facts = msgspec.convert(captured, list[PredictionFacts | None])
        context.put(LATENCY, [None if one is None else _read(one) for one in facts])

    def predict(self, context: SchedulingContext) -> list[Prediction | None]:
        if self._pool.ttft.samples < LEAST_SAMPLES:
            return [None] * len(context.endpoints)
        uncached = self._uncached(context)
        return [
            self._expect(context.request, endpoint, tokens, endpoint.tokens_in_flight)
            for endpoint, tokens in zip(context.endpoints, uncached, strict=True)
        ]

    def pre_request(self, context: SchedulingContext, decision: Decision) -> Sequence[tuple[str, str]]:
        picked = decision.picked
        before = context.get(self._before)
        if before is None:
            return ()
        (tokens,), (ahead,) = (context.aligned(column, (picked,)) for column in (self._uncached(context), before))
        features = _ttft_features(picked, tokens, ahead), _tpot_features(picked, ahead)
        self._pending[context.request] = _Pending(picked, *features, context.now_s)
        self._forget_old(context.now_s)
        return ()

    def response_complete(self, request: Request, _decision: Decision, served: EndpointResponse) -> None:
        pending = self._pending.pop(request, None)
        # The latency of another endpoint does not belong to the recorded load.
        if pending is None or served.status not in _OK or served.endpoint is not pending.endpoint:
            return
        began_s = served.first_byte_s if served.first_byte_s >= 0.0 else served.ended_s
        lines = self._endpoints.setdefault(pending.endpoint, _Lines())
        if began_s >= served.started_s:
            for each in (lines.ttft, self._pool.ttft):
                each.learn(pending.ttft_features, began_s - served.started_s)
        further = served.usage.output_tokens - 1
        if further > 0 and served.ended_s > served.first_byte_s >= 0.0:
            for each in (lines.tpot, self._pool.tpot):
                each.learn(pending.tpot_features, (served.ended_s - served.first_byte_s) / further)

    def endpoints_changed(self, endpoints: Sequence[Endpoint]) -> None:
        kept = set(endpoints)
        self._endpoints = {endpoint: lines for endpoint, lines in self._endpoints.items() if endpoint in kept}

    def _expect(self, request: Request, endpoint: Endpoint, tokens: int, ahead: int) -> Prediction | None:
        lines = self._endpoints.get(endpoint, self._pool)
        ttft_s, sure = _predict(lines.ttft, self._pool.ttft, _ttft_features(endpoint, tokens, ahead))
        if ttft_s is None:
            return None
        tpot_s, _ = _predict(lines.tpot, self._pool.tpot, _tpot_features(endpoint, ahead))
        factor = self._parameters.slo_buffer_factor
        return Prediction(
            ttft_s,
            tpot_s or 0.0,
            request.ttft_goal_s * factor - ttft_s if request.ttft_goal_s > 0.0 else NO_GOAL,
            request.tpot_goal_s * factor - (tpot_s or 0.0) if request.tpot_goal_s > 0.0 else NO_GOAL,
            sure,
        )

    def _uncached(self, context: SchedulingContext) -> Sequence[int]:
        tokens = context.request.tokens
        match = prefix_of(context, self._parameters.prefix_match_info_producer_name)
        if match is None or not any_held(match):
            return [tokens] * len(context.endpoints)
        return [max(0, tokens - blocks * match.block_size) for blocks in match.matched]

    def _forget_old(self, now_s: float) -> None:
        """The first is the oldest."""
        oldest = next(iter(self._pending))
        too_old = now_s - self._pending[oldest].sent_s > self._context_ttl_s
        if too_old or len(self._pending) > _MAX_PENDING:
            del self._pending[oldest]


def _written(one: Prediction) -> PredictionFacts:
    ttft, tpot = (None if room == NO_GOAL else room for room in (one.ttft_headroom_s, one.tpot_headroom_s))
    return PredictionFacts(one.ttft_s, one.tpot_s, ttft, tpot, one.confidence)


def _read(facts: PredictionFacts) -> Prediction:
    ttft, tpot = (NO_GOAL if room is None else room for room in (facts.ttft_headroom_s, facts.tpot_headroom_s))
    return Prediction(facts.ttft_s, facts.tpot_s, ttft, tpot, facts.confidence)


def duration_s(written: str) -> float:
    found = decode(Duration, written)
    return float(found) if isinstance(found, float) else 0.0


def _predict(own: Regression, pool: Regression, features: Sequence[float]) -> tuple[float | None, float]:
    """The prediction of the endpoint's own regression, or of the pool's; never negative. And its confidence."""
    for line in (own, pool):
        found = line.predict(features)
        if found is not None:
            return max(0.0, found), line.confidence
    return None, 0.0


def _ttft_features(endpoint: Endpoint, tokens: int, ahead: int) -> tuple[float, ...]:
    """Features of similar magnitude."""
    metrics = endpoint.metrics
    return (
        1.0,
        tokens / 1000.0,
        metrics.waiting / 10.0,
        metrics.running / 10.0,
        float(metrics.kv_cache_usage),
        ahead / 10_000.0,
    )


def _tpot_features(endpoint: Endpoint, ahead: int) -> tuple[float, ...]:
    metrics = endpoint.metrics
    return (1.0, metrics.running / 10.0, float(metrics.kv_cache_usage), ahead / 10_000.0)


TYPES = (
    plugin_type(
        "predicted-latency-producer",
        LatencyProducer,
        LatencyProducerParameters,
        produces="latency",
        consumes=("in-flight load",),
    ),
)
