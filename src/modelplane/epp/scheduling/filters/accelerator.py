"""Endpoints on the accelerators that the configuration or the request names.

The label names the accelerator of an endpoint. `values` are the allowed ones; a request may narrow them further with a
header that lists accelerators.
"""

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.registry import Parameters, plugin_type

LABEL = "modelplane.ai/accelerator"
HEADER = "x-modelplane-accelerator"


class AcceleratorParameters(Parameters, frozen=True):
    label: str = LABEL
    values: tuple[str, ...] = ()
    """None: all."""
    header: str = HEADER
    allows_no_label: bool = False


class AcceleratorFilter:
    __slots__ = ("_allows_no_label", "_header", "_label", "_values", "name")

    def __init__(self, name: str, parameters: AcceleratorParameters) -> None:
        if not parameters.label:
            raise InputError("label is required")
        self.name = name
        self._label = parameters.label
        self._values = frozenset(parameters.values)
        self._header = parameters.header.lower()
        self._allows_no_label = parameters.allows_no_label

    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        named = context.request.headers.get(self._header)
        if named is None and not self._values:
            return None
        found = endpoint.labels.get(self._label)
        if found is None:
            return (
                None
                if self._allows_no_label
                else Refusal(self.name, RefusalCode.UNRESOLVABLE, "has no {}", (self._label,))
            )
        if self._values and found not in self._values:
            allowed = ", ".join(sorted(self._values))
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "runs on {}; allowed are {}", (found, allowed))
        if named is not None and found not in map(str.strip, named.split(",")):
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "runs on {}; the request requires {}", (found, named))
        return None


TYPES = (plugin_type("accelerator-filter", AcceleratorFilter, AcceleratorParameters),)
