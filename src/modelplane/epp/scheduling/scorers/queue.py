"""Fewer requests waiting at the server is better: the longest queue scores 0, the shortest 1."""

from operator import attrgetter

from modelplane.epp.scheduling.metric_scorers import LowestFirstScorer
from modelplane.framework.registry import NoParameters, plugin_type


class QueueScorer(LowestFirstScorer):
    __slots__ = ()

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        super().__init__(name, attrgetter("waiting"))


TYPES = (plugin_type("queue-scorer", QueueScorer, NoParameters),)
