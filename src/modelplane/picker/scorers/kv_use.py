"""The share of the KV cache that is free."""

from modelplane.picker.catalogue import NoParameters, plugin_type
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.memo import EndpointGauge


class KvUseScorer(EndpointGauge):
    __slots__ = ()

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        super().__init__(name, _free)


def _free(endpoint: Endpoint) -> float:
    return 1.0 - endpoint.kv_use


TYPES = (plugin_type("kv-cache-utilization-scorer", KvUseScorer, NoParameters),)
