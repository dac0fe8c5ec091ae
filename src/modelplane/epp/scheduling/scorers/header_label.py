"""One point where a label of the endpoint equals a header of the request."""

from collections.abc import Sequence

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import zeros
from modelplane.framework.registry import Parameters, plugin_type


class HeaderLabelParameters(Parameters, frozen=True):
    header_name: str
    label_key: str


class HeaderLabelScorer:
    __slots__ = ("_header", "_label", "name")

    def __init__(self, name: str, parameters: HeaderLabelParameters) -> None:
        if not parameters.header_name or not parameters.label_key:
            raise InputError("headerName and labelKey are required")
        self.name = name
        self._header = parameters.header_name.lower()
        self._label = parameters.label_key

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Sequence[float]:
        wanted = context.request.headers.get(self._header)
        if not wanted:
            return zeros(len(endpoints))
        return [1.0 if endpoint.labels.get(self._label) == wanted else 0.0 for endpoint in endpoints]


TYPES = (plugin_type("header-label-affinity-scorer", HeaderLabelScorer, HeaderLabelParameters),)
