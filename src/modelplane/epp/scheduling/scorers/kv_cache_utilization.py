"""The share of the KV cache that is free."""

from operator import attrgetter

from modelplane.epp.scheduling.metric_scorers import EndpointMetricScorer
from modelplane.framework.registry import NoParameters, plugin_type


class KvCacheUtilizationScorer(EndpointMetricScorer):
    __slots__ = ()

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        super().__init__(name, attrgetter("kv_free"))


TYPES = (plugin_type("kv-cache-utilization-scorer", KvCacheUtilizationScorer, NoParameters),)
