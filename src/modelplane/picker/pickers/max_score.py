"""The best totals first; chance decides among equals, so equals share the load."""

from collections.abc import Sequence
from heapq import nlargest

from modelplane.framework import Scored
from modelplane.picker.catalogue import Parameters, plugin_type
from modelplane.picker.chances import among, by_name, shuffled
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint


class MaxScoreParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """How many endpoints the proxy is told, for falling back along them; less than 1 counts as 1."""


class MaxScorePicker:
    __slots__ = ("_most", "name")

    def __init__(self, name: str, parameters: MaxScoreParameters) -> None:
        self.name = name
        self._most = max(1, parameters.max_num_of_endpoints)

    def order(self, cycle: Cycle, endpoints: Sequence[Endpoint], totals: Sequence[float], /) -> Sequence[int]:
        if self._most > 1:
            return self._several(cycle, endpoints, totals)
        best = max(totals)
        if totals.count(best) == 1:
            return (totals.index(best),)
        return (among(cycle, endpoints, [at for at, total in enumerate(totals) if total == best]),)

    def pick(self, cycle: Cycle, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        order = self.order(cycle, [found.candidate for found in scored], [found.total for found in scored])
        return [scored[at] for at in order]

    def _several(self, cycle: Cycle, endpoints: Sequence[Endpoint], totals: Sequence[float]) -> Sequence[int]:
        least = nlargest(self._most, totals)[-1]
        wanted = by_name(endpoints, [at for at, total in enumerate(totals) if total >= least])
        ordered = sorted(shuffled(cycle, wanted), key=totals.__getitem__, reverse=True)
        return ordered[: self._most]


TYPES = (plugin_type("max-score-picker", MaxScorePicker, MaxScoreParameters),)
