"""By how long endpoints are expected to take.

If the client has SLOs, endpoints that are expected to meet them come first: closest to the SLO by default (`least`
headroom, which keeps idle servers free), or furthest from it (`most`). If none would meet them, idle endpoints are
preferred, then those that miss only TPOT, then those that miss only TTFT, then the rest, and among these the one that
misses by least. Without SLOs the shortest expected time is best.

Within a tier the two headrooms are scaled from smallest to largest and weighted; one that is equal for all does not
count. Endpoints outside it score 0, and so does one without a prediction while others have one. Without any prediction
the score uses free KV cache, queue and prefix.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.latency import LATENCY, Prediction
from modelplane.epp.scheduling.producers.prefix import prefix_of
from modelplane.framework.registry import Parameters, plugin_type

Weight = Annotated[float, msgspec.Meta(ge=0.0)]

_STEPS = 100
_SAME = 1e-9
_HALF = 0.5


class HeadroomStrategy(StrEnum):
    LEAST = "least"
    MOST = "most"


class LatencyScorerParameters(Parameters, frozen=True):
    ttft_weight: Weight = 0.8
    tpot_weight: Weight = 0.2
    headroom_selection_strategy: HeadroomStrategy = HeadroomStrategy.LEAST
    composite_kv_weight: Weight = msgspec.field(default=1.0, name="compositeKVWeight")
    composite_queue_weight: Weight = 1.0
    composite_prefix_weight: Weight = 1.0
    latency_prediction_info_producer_name: str = ""
    prefix_match_info_producer_name: str = ""


class LatencyHeadroom(msgspec.Struct, frozen=True):
    """How far an endpoint is from the goals, at one position; below 0 it misses one."""

    at: int
    ttft_s: float
    tpot_s: float
    is_idle: bool

    @property
    def is_met(self) -> bool:
        return self.ttft_s >= 0.0 and self.tpot_s >= 0.0


class LatencyScorer:
    __slots__ = ("_by_latency", "_composite", "_parameters", "_ttft", "name")

    def __init__(self, name: str, parameters: LatencyScorerParameters, *, by_latency: bool = True) -> None:
        """Without `by_latency`, by free KV cache, queue and prefix, even with predictions."""
        self.name = name
        self._by_latency = by_latency
        self._parameters = parameters
        both = parameters.ttft_weight + parameters.tpot_weight
        self._ttft = parameters.ttft_weight / both if both else 1.0
        parts = (parameters.composite_kv_weight, parameters.composite_queue_weight, parameters.composite_prefix_weight)
        self._composite = tuple(part / sum(parts) for part in parts) if sum(parts) else (1.0, 0.0, 0.0)

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        predictions = context.get(LATENCY) if self._by_latency else None
        known = list(_headrooms(context, endpoints, predictions)) if predictions is not None else []
        if not known:
            return self._without_predictions(context, endpoints)
        met = [headroom for headroom in known if headroom.is_met]
        tier = met or _best_of_missed(known)
        strategy = self._parameters.headroom_selection_strategy if met else HeadroomStrategy.LEAST
        scores = [0.0] * len(endpoints)
        for headroom, combined in zip(tier, self._combined(tier), strict=True):
            share = combined if strategy is HeadroomStrategy.MOST else 1.0 - combined
            scores[headroom.at] = min(1.0, (int(share * _STEPS) + 1) / _STEPS)
        return scores

    def _combined(self, tier: Sequence[LatencyHeadroom]) -> list[float]:
        ttft, ttft_differs = _line([abs(headroom.ttft_s) for headroom in tier])
        tpot, tpot_differs = _line([abs(headroom.tpot_s) for headroom in tier])
        weight = self._ttft
        if ttft_differs != tpot_differs:
            weight = 1.0 if ttft_differs else 0.0
        return [weight * first + (1.0 - weight) * further for first, further in zip(ttft, tpot, strict=True)]

    def _without_predictions(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> list[float]:
        kv, queue, prefix = self._composite
        all_metrics = context.metrics(endpoints)
        longest = max(metrics.waiting for metrics in all_metrics)
        shares = self._prefix_shares(context, endpoints)
        return [
            round(
                (kv * (1.0 - metrics.kv_cache_usage) + queue * _shorter(metrics.waiting, longest) + prefix * share)
                * _STEPS
            )
            / _STEPS
            for metrics, share in zip(all_metrics, shares, strict=True)
        ]

    def _prefix_shares(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        match = prefix_of(context, self._parameters.prefix_match_info_producer_name)
        if match is None or not match.total_blocks:
            return [0.0] * len(endpoints)
        return [min(1.0, blocks / match.total_blocks) for blocks in context.aligned(match.matched, endpoints)]


def _headrooms(
    context: SchedulingContext, endpoints: Sequence[Endpoint], predictions: Sequence[Prediction | None]
) -> Iterator[LatencyHeadroom]:
    """The headrooms of endpoints with a prediction. Without an SLO, the expected time is the miss."""
    request = context.request
    no_goal = request.ttft_goal_s <= 0.0 and request.tpot_goal_s <= 0.0
    for at, (endpoint, found) in enumerate(zip(endpoints, context.aligned(predictions, endpoints), strict=True)):
        if found is None:
            continue
        if no_goal:
            # All are of one tier, also one that needs no time for a part.
            yield LatencyHeadroom(at, -found.ttft_s, -found.tpot_s, is_idle=True)
        else:
            ttft_s = found.ttft_headroom_s if request.ttft_goal_s > 0.0 else 0.0
            tpot_s = found.tpot_headroom_s if request.tpot_goal_s > 0.0 else 0.0
            yield LatencyHeadroom(at, ttft_s, tpot_s, is_idle=endpoint.requests_in_flight == 0)


def _best_of_missed(missed: Sequence[LatencyHeadroom]) -> Sequence[LatencyHeadroom]:
    tiers = (
        [headroom for headroom in missed if headroom.is_idle],
        [headroom for headroom in missed if headroom.ttft_s >= 0.0],
        [headroom for headroom in missed if headroom.tpot_s >= 0.0],
    )
    return next((tier for tier in tiers if tier), missed)


def _line(values: Sequence[float]) -> tuple[list[float], bool]:
    """Values from smallest (0) to largest (1), and whether they differ at all; if not, all are in the middle."""
    least, most = min(values), max(values)
    if most - least <= _SAME:
        return [_HALF] * len(values), False
    return [(value - least) / (most - least) for value in values], True


def _shorter(waiting: float, longest: float) -> float:
    return (longest - waiting) / longest if longest else 1.0


TYPES = (plugin_type("latency-scorer", LatencyScorer, LatencyScorerParameters, consumes=("latency", "prefix")),)
