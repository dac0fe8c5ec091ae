"""Endpoints that are expected to meet the client's goals, where there are any.

At random, the others are kept instead, so that their predictions are updated. An endpoint without a prediction counts
as one that misses. All are kept if all are equal, or if the client has no SLO.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.producers.latency import LATENCY
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type


class SloHeadroomParameters(Parameters, frozen=True):
    epsilon_explore_neg: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.01
    latency_prediction_info_producer_name: str = ""


class SloHeadroomFilter:
    __slots__ = ("_explore", "name")

    def __init__(self, name: str, parameters: SloHeadroomParameters) -> None:
        self.name = name
        self._explore = parameters.epsilon_explore_neg

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[Refusal | None]:
        predictions = context.get(LATENCY)
        request = context.request
        if predictions is None or (request.ttft_goal_s <= 0.0 and request.tpot_goal_s <= 0.0):
            return ()
        met = [
            found is not None and found.ttft_headroom_s >= 0.0 and found.tpot_headroom_s >= 0.0
            for found in context.aligned(predictions, endpoints)
        ]
        if not any(met) or all(met):
            return ()
        explores = self._explore > 0.0 and context.chance() < self._explore
        what = "is expected to meet the goals, others are tried" if explores else "is not expected to meet the goals"
        no = Refusal(self.name, RefusalCode.UNSCHEDULABLE, what)
        return [no if meets is explores else None for meets in met]


TYPES = (plugin_type("slo-headroom-tier-filter", SloHeadroomFilter, SloHeadroomParameters, consumes=("latency",)),)
