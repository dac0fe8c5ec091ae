"""Endpoints at random, each as likely as its score is high.

Every endpoint draws a number u in (0, 1) and is ranked by u to the power of 1 / score: the first is drawn in proportion
to the scores, the next in proportion to those of the rest, and so on (Efraimidis and Spirakis). An endpoint that scores
nothing comes last; where all score nothing, all are alike.
"""

from collections.abc import Sequence
from heapq import nlargest
from math import inf, log

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.sampling import NameOrder, shuffled
from modelplane.framework import Scored
from modelplane.framework.registry import Parameters, plugin_type


class WeightedRandomParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """Less than 1 counts as 1."""


class WeightedRandomPicker:
    __slots__ = ("_limit", "_names", "name")

    def __init__(self, name: str, parameters: WeightedRandomParameters) -> None:
        self.name = name
        self._limit = max(1, parameters.max_num_of_endpoints)
        self._names = NameOrder()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        positions = self._names.sort(endpoints, range(len(sums)))
        if max(sums) <= 0.0:
            return shuffled(context, positions)[: self._limit]
        # The logarithm of u ** (1 / score) orders alike and does not vanish for small scores.
        keys = {at: _log(context.chance()) / sums[at] if sums[at] > 0.0 else -inf for at in positions}
        return nlargest(self._limit, positions, key=keys.__getitem__)

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        order = self.order(context, [found.candidate for found in scored], [found.total for found in scored])
        return [scored[at] for at in order]


def _log(drawn: float) -> float:
    return log(drawn) if drawn > 0.0 else -1e300


TYPES = (plugin_type("weighted-random-picker", WeightedRandomPicker, WeightedRandomParameters),)
