"""Any endpoint, each as likely as another."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.sampling import NameOrder, shuffled
from modelplane.framework import Scored
from modelplane.framework.registry import Parameters, plugin_type


class RandomParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """Less than 1 counts as 1."""


class RandomPicker:
    __slots__ = ("_limit", "_names", "name")

    def __init__(self, name: str, parameters: RandomParameters) -> None:
        self.name = name
        self._limit = max(1, parameters.max_num_of_endpoints)
        self._names = NameOrder()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        everyone = range(len(sums))
        if self._limit == 1:
            return (self._names.pick_one(context, endpoints, everyone),)
        return shuffled(context, self._names.sort(endpoints, everyone))[: self._limit]

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        order = self.order(context, [found.candidate for found in scored], [found.total for found in scored])
        return [scored[at] for at in order]


TYPES = (plugin_type("random-picker", RandomPicker, RandomParameters),)
