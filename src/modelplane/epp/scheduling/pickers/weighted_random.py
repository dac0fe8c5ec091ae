"""Endpoints at random, each as likely as its score is high.

Every endpoint draws a number u in (0, 1) and is ranked by u to the power of 1 / score: the first is drawn in proportion
to the scores, the next in proportion to those of the rest, and so on (Efraimidis and Spirakis). An endpoint with score
0 comes last; if all scores are 0, all endpoints have equal chances.
"""

from collections.abc import Sequence
from heapq import nlargest
from math import inf, log

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import PickerParameters
from modelplane.epp.scheduling.sampling import NameOrder, pick_in_order, shuffled
from modelplane.framework import Scored
from modelplane.framework.registry import plugin_type


class WeightedRandomPicker:
    __slots__ = ("_limit", "_names", "name")

    def __init__(self, name: str, parameters: PickerParameters) -> None:
        self.name = name
        self._limit = max(1, parameters.max_num_of_endpoints)
        self._names = NameOrder()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        positions = self._names.sort(endpoints, range(len(sums)))
        if max(sums) <= 0.0:
            return shuffled(context, positions)[: self._limit]
        # The logarithm of u ** (1 / score) has the same order and does not vanish for small scores.
        keys = {at: _log(context.chance()) / sums[at] if sums[at] > 0.0 else -inf for at in positions}
        return nlargest(self._limit, positions, key=keys.__getitem__)

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        return pick_in_order(self.order, context, scored)


def _log(drawn: float) -> float:
    return log(drawn) if drawn > 0.0 else -1e300


TYPES = (plugin_type("weighted-random-picker", WeightedRandomPicker, PickerParameters),)
