"""Rejects sheddable requests that no endpoint is predicted to serve within the client's latency goals.

Only requests with a priority below 0 and with goals are rejected. They are admitted where an endpoint is predicted to
meet the goals, runs nothing, or has an empty KV cache, and where there is no prediction.
"""

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.producers.latency import LATENCY
from modelplane.framework.registry import Parameters, plugin_type

_COLD = 0.02


class LatencySloParameters(Parameters, frozen=True):
    latency_prediction_info_producer_name: str = ""


class LatencySloAdmitter:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: LatencySloParameters) -> None:
        self.name = name

    def admit(self, context: SchedulingContext, /) -> str:
        request = context.request
        predictions = context.get(LATENCY)
        if request.priority >= 0 or (request.ttft_goal_s <= 0.0 and request.tpot_goal_s <= 0.0) or predictions is None:
            return ""
        known = [found for found in predictions if found is not None]
        if not known or any(found.ttft_headroom_s >= 0.0 and found.tpot_headroom_s >= 0.0 for found in known):
            return ""
        if any(
            metrics.running == 0 or metrics.kv_cache_usage < _COLD for metrics in context.metrics(context.endpoints)
        ):
            return ""
        return f"0 of {len(known)} endpoints are predicted to meet the request's latency goals"


TYPES = (plugin_type("latency-slo-admitter", LatencySloAdmitter, LatencySloParameters, consumes=("latency",)),)
