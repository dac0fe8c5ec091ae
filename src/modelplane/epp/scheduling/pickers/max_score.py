"""The best totals first; chance decides among equals, so equals share the load."""

from collections.abc import Sequence
from heapq import nlargest

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import PickerParameters
from modelplane.epp.scheduling.sampling import NameOrder, pick_in_order, shuffled
from modelplane.framework import Scored
from modelplane.framework.registry import plugin_type


class BestPicker:
    """The best one."""

    __slots__ = ("_names", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._names = NameOrder()

    def take(self, context: SchedulingContext, endpoints: Sequence[Endpoint], best: Sequence[int], /) -> int:
        return self._names.pick_one(context, endpoints, best)

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        highest = max(sums)
        best = [at for at, total in enumerate(sums) if total == highest]
        return best if len(best) == 1 else (self.take(context, endpoints, best),)

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        return pick_in_order(self.order, context, scored)


class SeveralBestPicker:
    """The best ones, in their order."""

    __slots__ = ("_limit", "_names", "name")

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._limit = most
        self._names = NameOrder()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        least = nlargest(self._limit, sums)[-1]
        wanted = self._names.sort(endpoints, [at for at, total in enumerate(sums) if total >= least])
        ordered = sorted(shuffled(context, wanted), key=sums.__getitem__, reverse=True)
        return ordered[: self._limit]

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        return pick_in_order(self.order, context, scored)


def make_max_score(name: str, parameters: PickerParameters) -> BestPicker | SeveralBestPicker:
    most = parameters.max_num_of_endpoints
    return BestPicker(name) if most <= 1 else SeveralBestPicker(name, most)


TYPES = (plugin_type("max-score-picker", make_max_score, PickerParameters),)
