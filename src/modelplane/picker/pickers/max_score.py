"""The best totals first; chance decides among equals, so equals share the load."""

from collections.abc import Sequence
from heapq import nlargest

from modelplane.framework import Scored
from modelplane.picker.catalogue import Parameters, plugin_type
from modelplane.picker.chances import ByName, shuffled
from modelplane.picker.cycle import Cycle
from modelplane.picker.endpoints import Endpoint


class MaxScoreParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """How many endpoints the proxy is told, for falling back along them; less than 1 counts as 1."""


class MaxScorePicker:
    __slots__ = ("_best", "_best_of", "_by_name", "_most", "name")

    def __init__(self, name: str, parameters: MaxScoreParameters) -> None:
        self.name = name
        self._most = max(1, parameters.max_num_of_endpoints)
        self._best_of: Sequence[float] = ()
        self._best: Sequence[int] = ()
        self._by_name = ByName()

    def order(self, cycle: Cycle, endpoints: Sequence[Endpoint], sums: Sequence[float], /) -> Sequence[int]:
        if self._most > 1:
            return self._several(cycle, endpoints, sums)
        if sums is not self._best_of:
            self._best_of, self._best = sums, _positions_of_best(sums)
        best = self._best
        return best if len(best) == 1 else (self._by_name.one(cycle, endpoints, best),)

    def pick(self, cycle: Cycle, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        order = self.order(cycle, [found.candidate for found in scored], [found.total for found in scored])
        return [scored[at] for at in order]

    def _several(self, cycle: Cycle, endpoints: Sequence[Endpoint], sums: Sequence[float]) -> Sequence[int]:
        least = nlargest(self._most, sums)[-1]
        wanted = self._by_name.sort(endpoints, [at for at, total in enumerate(sums) if total >= least])
        ordered = sorted(shuffled(cycle, wanted), key=sums.__getitem__, reverse=True)
        return ordered[: self._most]


def _positions_of_best(sums: Sequence[float]) -> Sequence[int]:
    best = max(sums)
    if sums.count(best) == 1:
        return (sums.index(best),)
    return [at for at, total in enumerate(sums) if total == best]


TYPES = (plugin_type("max-score-picker", MaxScorePicker, MaxScoreParameters),)
