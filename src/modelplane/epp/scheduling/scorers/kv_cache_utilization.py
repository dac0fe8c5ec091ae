"""The share of the KV cache that is free."""

from operator import attrgetter

from modelplane.epp.scheduling.catalogue import EmptyParameters, plugin_type
from modelplane.epp.scheduling.metric_scorers import MetricScorer


class KvUseScorer(MetricScorer):
    __slots__ = ()

    def __init__(self, name: str, _parameters: EmptyParameters) -> None:
        super().__init__(name, attrgetter("kv_free"))


TYPES = (plugin_type("kv-cache-utilization-scorer", KvUseScorer, EmptyParameters),)
