"""Any endpoint, each as likely as another."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import PickerParameters
from modelplane.epp.scheduling.sampling import NameOrder, pick_in_order, shuffled
from modelplane.framework import Scored
from modelplane.framework.registry import plugin_type


class RandomPicker:
    __slots__ = ("_limit", "_names", "name")

    def __init__(self, name: str, parameters: PickerParameters) -> None:
        self.name = name
        self._limit = max(1, parameters.max_num_of_endpoints)
        self._names = NameOrder()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        positions = range(len(sums))
        if self._limit == 1:
            return (self._names.pick_one(context, endpoints, positions),)
        return shuffled(context, self._names.sort(endpoints, positions))[: self._limit]

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        return pick_in_order(self.order, context, scored)


TYPES = (plugin_type("random-picker", RandomPicker, PickerParameters),)
