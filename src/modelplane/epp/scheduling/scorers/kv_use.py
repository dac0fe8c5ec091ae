"""The share of the KV cache that is free."""

from operator import attrgetter

from modelplane.epp.scheduling.memo import EndpointGauge
from modelplane.framework.registry import NoParameters, plugin_type


class KvUseScorer(EndpointGauge):
    __slots__ = ()

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        super().__init__(name, attrgetter("kv_free"))


TYPES = (plugin_type("kv-cache-utilization-scorer", KvUseScorer, NoParameters),)
