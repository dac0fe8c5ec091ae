"""Fewer requests running at the server is better, relative to the others."""

from operator import attrgetter

from modelplane.epp.scheduling.catalogue import EmptyParameters, plugin_type
from modelplane.epp.scheduling.metric_scorers import LowestFirstScorer


class RunningScorer(LowestFirstScorer):
    __slots__ = ()

    def __init__(self, name: str, _parameters: EmptyParameters) -> None:
        super().__init__(name, attrgetter("running"))


TYPES = (plugin_type("running-requests-size-scorer", RunningScorer, EmptyParameters),)
