"""Fewer requests waiting at the server is better: the longest queue scores 0, the shortest 1."""

from collections.abc import Sequence
from operator import attrgetter

from modelplane.framework import Revised
from modelplane.picker.catalogue import NoParameters, plugin_type
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint
from modelplane.picker.memo import RelativeColumn


class QueueScorer:
    __slots__ = ("_column", "name")

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name
        self._column = RelativeColumn(attrgetter("waiting"))

    def score(self, cycle: Cycle, endpoints: Sequence[Endpoint], /) -> Revised:
        return self._column.of(cycle, endpoints)


TYPES = (plugin_type("queue-scorer", QueueScorer, NoParameters),)
