"""Any endpoint, each as likely as another."""

from collections.abc import Sequence

from modelplane.epp.scheduling.chances import ByName, shuffled
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Scored
from modelplane.framework.registry import Parameters, plugin_type


class RandomParameters(Parameters, frozen=True):
    max_num_of_endpoints: int = 1
    """Less than 1 counts as 1."""


class RandomPicker:
    __slots__ = ("_by_name", "_most", "name")

    def __init__(self, name: str, parameters: RandomParameters) -> None:
        self.name = name
        self._most = max(1, parameters.max_num_of_endpoints)
        self._by_name = ByName()

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        everyone = range(len(sums))
        if self._most == 1:
            return (self._by_name.one(context, endpoints, everyone),)
        return shuffled(context, self._by_name.sort(endpoints, everyone))[: self._most]

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        order = self.order(context, [found.candidate for found in scored], [found.total for found in scored])
        return [scored[at] for at in order]


TYPES = (plugin_type("random-picker", RandomPicker, RandomParameters),)
