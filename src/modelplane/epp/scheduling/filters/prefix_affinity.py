"""Stays with the endpoints that hold most of the prompt, while that does not cost too much waiting.

An endpoint is *sticky* if it holds at least the threshold's share of the prompt. All are kept if there is only one
endpoint, none is sticky, the random draw says to explore, or the best sticky endpoint would respond later than the best
other one by more than the penalty allows. The time to first token is the tokens in flight at the peak rate of prefill,
or the prediction if there is one for all endpoints.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.latency import LATENCY
from modelplane.epp.scheduling.producers.prefix import prefix_of
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type

_MS = 1000.0


class PrefixSource(StrEnum):
    PREFILL_THROUGHPUT = "prefillThroughput"
    LATENCY_PREDICTOR = "latencyPredictor"


class PrefixAffinityParameters(Parameters, frozen=True):
    affinity_threshold: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.8
    exploration_probability: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    max_ttft_penalty_ms: Annotated[float, msgspec.Meta(ge=0.0)] = msgspec.field(
        default=18000.0, name="maxTTFTPenaltyMs"
    )
    """0: no penalty is too much."""
    ttft_source: PrefixSource = PrefixSource.PREFILL_THROUGHPUT
    peak_prefill_throughput: Annotated[float, msgspec.Meta(gt=0.0)] = 15928.0
    """Tokens a second."""
    prefix_match_info_producer_name: str = ""
    latency_prediction_info_producer_name: str = ""
    in_flight_load_producer_name: str = ""


class PrefixAffinityFilter:
    __slots__ = ("_parameters", "name")

    def __init__(self, name: str, parameters: PrefixAffinityParameters) -> None:
        self.name = name
        self._parameters = parameters

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        match = prefix_of(context, self._parameters.prefix_match_info_producer_name)
        if len(endpoints) < 2 or match is None or not match.total_blocks:  # noqa: PLR2004  one endpoint is no choice
            return ()
        shares = [blocks / match.total_blocks for blocks in context.aligned(match.matched, endpoints)]
        sticky = [share >= self._parameters.affinity_threshold for share in shares]
        if (
            not any(sticky)
            or all(sticky)
            or self._explores(context)
            or self._costs_too_much(context, endpoints, sticky)
        ):
            return ()
        return [None if stays else self._refuse_cold(share) for share, stays in zip(shares, sticky, strict=True)]

    def _refuse_cold(self, share: float) -> Refusal:
        values = (share, self._parameters.affinity_threshold)
        return Refusal(
            self.name, RefusalCode.UNSCHEDULABLE, "holds {:.0%} of the prompt, others {:.0%} or more", values
        )

    def _explores(self, context: SchedulingContext) -> bool:
        probability = self._parameters.exploration_probability
        return probability > 0.0 and context.chance() < probability

    def _costs_too_much(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sticky: Sequence[bool]
    ) -> bool:
        penalty = self._parameters.max_ttft_penalty_ms
        if not penalty:
            return False
        waits = self._waits_ms(context, endpoints)
        best_sticky = min(wait for wait, stays in zip(waits, sticky, strict=True) if stays)
        best_other = min(wait for wait, stays in zip(waits, sticky, strict=True) if not stays)
        return best_sticky - best_other > penalty

    def _waits_ms(self, context: SchedulingContext, endpoints: Sequence[Endpoint]) -> list[float]:
        rate = self._parameters.peak_prefill_throughput
        predictions = context.get(LATENCY) if self._parameters.ttft_source is PrefixSource.LATENCY_PREDICTOR else None
        if predictions is not None:
            found = [each for each in context.aligned(predictions, endpoints) if each is not None]
            if len(found) == len(endpoints):
                return [each.ttft_s * _MS for each in found]
        return [endpoint.tokens_in_flight / rate * _MS for endpoint in endpoints]


TYPES = (
    plugin_type(
        "prefix-cache-affinity-filter",
        PrefixAffinityFilter,
        PrefixAffinityParameters,
        consumes=("prefix", "in-flight load"),
    ),
)
