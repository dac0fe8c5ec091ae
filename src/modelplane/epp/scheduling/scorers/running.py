"""Fewer requests running at the server is better, relative to the others."""

from operator import attrgetter

from modelplane.epp.scheduling.metric_scorers import LowestFirstScorer
from modelplane.framework.registry import NoParameters, plugin_type


class RunningScorer(LowestFirstScorer):
    __slots__ = ()

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        super().__init__(name, attrgetter("running"))


TYPES = (plugin_type("running-requests-size-scorer", RunningScorer, NoParameters),)
