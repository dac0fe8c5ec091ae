"""Turns sheddable requests away that nobody is expected to serve within the client's goals.

Only requests with a priority below 0 and with goals can be turned away. They are taken where an endpoint is expected to
meet the goals, runs nothing, or has an empty cache; and where nothing can be said of any.
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
        return "no endpoint is expected to meet the request's goals"


TYPES = (plugin_type("latency-slo-admitter", LatencySloAdmitter, LatencySloParameters, consumes=("latency",)),)
