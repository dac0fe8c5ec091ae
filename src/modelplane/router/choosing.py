"""The router's scorer and picker.

    group-load-scorer     fewer requests in flight than the other endpoints of the group are better
    group-share-picker    the best scores; among nearly equal ones the group and the endpoint that are owed most

Load is compared inside a group only: between groups the service's weights say who gets how much, and a slow provider
must not lose its share, nor a fast one gain it.
"""

from collections.abc import Sequence
from typing import Final

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.results import picked_of
from modelplane.epp.scheduling.sampling import pick_in_order
from modelplane.framework import Scored
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.router.routed_context import members_of, routed_of
from modelplane.router.share_parameters import SharePickerParameters

_LEAST_SPREAD: Final = 8
"""In flight: with fewer, a difference of one would decide everything."""


class GroupLoadScorer:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def score(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        groups = [member.group for member in members_of(context, endpoints)]
        loads = [endpoint.requests_in_flight for endpoint in endpoints]
        least: dict[str, int] = {}
        most: dict[str, int] = {}
        for group, load in zip(groups, loads, strict=True):
            least[group] = min(least.get(group, load), load)
            most[group] = max(most.get(group, load), load)
        return [
            1.0 - (load - least[group]) / max(_LEAST_SPREAD, most[group] - least[group])
            for group, load in zip(groups, loads, strict=True)
        ]


class GroupSharePicker:
    __slots__ = ("_tolerance", "name")

    def __init__(self, name: str, parameters: SharePickerParameters) -> None:
        self.name = name
        self._tolerance = parameters.tolerance

    def order(
        self, context: SchedulingContext, endpoints: Sequence[Endpoint], sums: Sequence[float], /
    ) -> Sequence[int]:
        least = max(sums) - self._tolerance
        near = [at for at, total in enumerate(sums) if total >= least]
        if len(near) == 1:
            return near
        service = routed_of(context).service
        members = service.members_of(endpoints)
        priority = members[near[0]].priority
        group = service.ledger(priority).most_owed({members[at].group for at in near})
        ours = {endpoints[at].name: at for at in near if members[at].group == group}
        return (ours[service.ledger(priority, group).most_owed(ours)],)

    def pick(self, context: SchedulingContext, scored: Sequence[Scored[Endpoint]], /) -> Sequence[Scored[Endpoint]]:
        return pick_in_order(self.order, context, scored)

    def pre_request(self, context: SchedulingContext, decision: Decision, /) -> Sequence[tuple[str, str]]:
        """Charge the group that was chosen, among those that were there to be chosen."""
        service, now_s = routed_of(context).service, context.now_s
        member = service.members[picked_of(decision)]
        present = [
            other
            for other in service.members.values()
            if other is member
            or (other.priority == member.priority and other.serves and other.endpoint.health.admits(now_s))
        ]
        weights, group = service.weights[member.priority], member.group
        service.ledger(member.priority).take(group, {other.group: weights[other.group] for other in present})
        mates = {other.key: 1.0 for other in present if other.group == group}
        service.ledger(member.priority, group).take(member.key, mates)
        return ()


TYPES = (
    plugin_type("group-load-scorer", GroupLoadScorer, NoParameters),
    plugin_type("group-share-picker", GroupSharePicker, SharePickerParameters),
)
