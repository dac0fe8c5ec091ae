"""Endpoints that serve the requested model, or have the requested LoRA adapter loaded or capacity to load it.

A server whose models or maximum of adapters are unknown is kept.
"""

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import OtherModel
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import NoParameters, Parameters, plugin_type


class LoraParameters(Parameters, frozen=True):
    allow_load: bool = True
    """Whether a server with room may load the adapter."""


class ModelFilter:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        model, models = context.request.model, endpoint.metrics.models
        if not model or not models or model in models:
            return None
        return OtherModel(self.name, RefusalCode.UNRESOLVABLE, "does not serve {}", (model,))


class LoraFilter:
    """A full server is UNSCHEDULABLE: another adapter may be unloaded."""

    __slots__ = ("_allow_load", "name")

    def __init__(self, name: str, parameters: LoraParameters) -> None:
        self.name = name
        self._allow_load = parameters.allow_load

    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        adapters, model = endpoint.metrics.adapters, context.request.model
        if not adapters.most or not model or model in adapters.running or model in adapters.waiting:
            return None
        if not self._allow_load:
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "has not loaded {}", (model,))
        active = len(adapters.running | adapters.waiting)
        if active < adapters.most:
            return None
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "{} of {} adapters are active, and {} is not one of them",
                       (active, adapters.most, model))  # fmt: skip


TYPES = (
    plugin_type("model-filter", ModelFilter, NoParameters),
    plugin_type("lora-filter", LoraFilter, LoraParameters),
)
