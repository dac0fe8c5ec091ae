"""The router's filters, in the order of the default profile.

ready-endpoint-filter      the plan says that it can answer
residency-filter           the request may be served there
held-adapter-filter        it lists the adapter that the request asks for, where one does
untried-endpoint-filter    no earlier attempt of the request went there, where another is left
endpoint-health-filter     it does not fail, where one is left that does not
priority-tier-filter       the first tier that has room, and attempts that later tiers do not need
group-share-filter         its group did not get more than its share
"""

from collections.abc import Sequence
from typing import Final

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode
from modelplane.framework.plugins import Answers
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.router.catalog import Member, RoutedService
from modelplane.router.routed_context import member_of, members_of, routed_of
from modelplane.router.routed_request import RoutedRequest
from modelplane.router.summaries import saturation_of

_LATER: Final = RefusalCode.UNSCHEDULABLE
_NEVER: Final = RefusalCode.UNRESOLVABLE
_ALL: Final[Answers] = ()


class _RouterFilter:
    """A filter that is a name and nothing else."""

    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name


class ReadyEndpointFilter(_RouterFilter):
    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        member = member_of(context, endpoint)
        if member.serves:
            return None
        return Refusal(self.name, _LATER, "{}", (member.plan.message or member.plan.reason or "is not ready",))

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        service = routed_of(context).service
        if len(service.serving) == len(service.candidates):
            return _ALL
        return [self.refuse(context, endpoint) for endpoint in endpoints]


class ResidencyFilter(_RouterFilter):
    def refuse(self, context: SchedulingContext, endpoint: Endpoint, /) -> Refusal | None:
        rule = routed_of(context).residency
        if rule is None or rule.allows(member_of(context, endpoint).plan):
            return None
        return Refusal(self.name, _NEVER, "is outside of {}", (rule.text,))

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        if routed_of(context).residency is None:
            return _ALL
        return [self.refuse(context, endpoint) for endpoint in endpoints]


class HeldAdapterFilter(_RouterFilter):
    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        adapter = routed_of(context).adapter
        if not adapter:
            return _ALL
        holds = [adapter in member_of(context, endpoint).endpoint.served for endpoint in endpoints]
        if all(holds) or not any(holds):
            return _ALL
        return [None if held else Refusal(self.name, _NEVER, "has no adapter {}", (adapter,)) for held in holds]


class UntriedEndpointFilter(_RouterFilter):
    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        tried = routed_of(context).tried
        if not tried or all(endpoint.name in tried for endpoint in endpoints):
            return _ALL
        return [
            Refusal(self.name, _LATER, "was tried before") if endpoint.name in tried else None for endpoint in endpoints
        ]


class EndpointHealthFilter(_RouterFilter):
    """Where every endpoint fails, all are kept: some answer is better than none."""

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        now_s = context.now_s
        admitted = [member.endpoint.health.admits(now_s) for member in members_of(context, endpoints)]
        if False not in admitted or True not in admitted:
            return _ALL
        return [
            None if admits else Refusal(self.name, _LATER, "{}", (self._why(context, endpoint),))
            for endpoint, admits in zip(endpoints, admitted, strict=True)
        ]

    def _why(self, context: SchedulingContext, endpoint: Endpoint) -> str:
        return member_of(context, endpoint).endpoint.health.describe(context.now_s)


class PriorityTierFilter(_RouterFilter):
    """The first tier with room. Where all are full, or no more requests may overflow, the first one.

    The last attempts of a request are for tiers that had none: a tier may be dark as a whole before a probe says so.
    """

    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        routed = routed_of(context)
        service = routed.service
        members = service.members_of(endpoints)
        room = [_takes_more(member) for member in members]
        priorities = [member.priority for member in members]
        if False not in room and min(priorities) == max(priorities):
            return _ALL
        first = _first_tier(routed, priorities)
        roomy = [at for at, has in zip(priorities, room, strict=True) if has and at >= first]
        chosen = min(roomy, default=first)
        if chosen != first and not _may_overflow(service, members, first):
            chosen = first
        keeps_full = not any(has for member, has in zip(members, room, strict=True) if member.priority == chosen)
        answers = [
            self._spent(member) if member.priority < first else self._answer(member, chosen, keeps=has or keeps_full)
            for member, has in zip(members, room, strict=True)
        ]
        return answers if any(answers) else _ALL

    def _spent(self, member: Member) -> Refusal:
        return Refusal(self.name, _LATER, "priority {} was tried: the last attempts go on", (member.priority,))

    def _answer(self, member: Member, chosen: int, *, keeps: bool) -> Refusal | None:
        if member.priority == chosen:
            if keeps:
                return None
            return Refusal(self.name, _LATER, "is full with {} in flight", (_in_flight(member),))
        if member.priority > chosen:
            return Refusal(
                self.name, _LATER, "priority {} is not needed: priority {} has room", (member.priority, chosen)
            )
        return Refusal(self.name, _LATER, "is full with {} in flight", (_in_flight(member),))


class GroupShareFilter(_RouterFilter):
    def refuse(self, _context: SchedulingContext, _endpoint: Endpoint, /) -> Refusal | None:
        return None

    def narrow(self, context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> Answers:
        service = routed_of(context).service
        members = service.members_of(endpoints)
        groups = {member.group for member in members}
        if len(groups) == 1:
            return _ALL
        priority = members[0].priority
        over = _groups_over(service, priority, groups)
        if not over or over == groups:
            return _ALL
        return [
            Refusal(self.name, _LATER, "group {} had more than its share", (member.group,))
            if member.group in over
            else None
            for member in members
        ]


def _groups_over(service: RoutedService, priority: int, groups: set[str]) -> set[str]:
    weights = {group: service.weights[priority].get(group, 0.0) for group in groups}
    total = sum(weights.values())
    if total <= 0.0:
        return set()
    ledger = service.ledger(priority)
    return {group for group, weight in weights.items() if ledger.is_over(group, weight / total)}


def _first_tier(routed: RoutedRequest, priorities: Sequence[int]) -> int:
    """The first tier that this attempt may go to. One that was tried is left when each later one needs an attempt."""
    tiers = sorted(set(priorities))
    if not routed.tried:
        return tiers[0]
    tried = {member.priority for member in routed.service.members.values() if member.key in routed.tried}
    while len(tiers) > routed.attempts_left + 1 and tiers[0] in tried:
        tiers.pop(0)
    return tiers[0]


def _takes_more(member: Member) -> bool:
    overflow, endpoint = member.plan.overflow, member.endpoint
    return overflow is None or endpoint.takes_more(overflow, saturation_of(endpoint.candidate))


def _in_flight(member: Member) -> int:
    return member.endpoint.candidate.requests_in_flight


def _may_overflow(service: RoutedService, members: Sequence[Member], first: int) -> bool:
    """Whether one request more may be sent on from the first tier, by the limits of its groups."""
    limits = [
        member.plan.overflow.max_percent
        for member in members
        if member.priority == first and member.plan.overflow is not None
    ]
    percent = max(limits, default=100)
    return percent >= 100 or service.overflowed * 100 < percent * (service.in_flight + 1)  # noqa: PLR2004  percent


TYPES = (
    plugin_type("ready-endpoint-filter", ReadyEndpointFilter, NoParameters),
    plugin_type("residency-filter", ResidencyFilter, NoParameters),
    plugin_type("held-adapter-filter", HeldAdapterFilter, NoParameters),
    plugin_type("untried-endpoint-filter", UntriedEndpointFilter, NoParameters),
    plugin_type("endpoint-health-filter", EndpointHealthFilter, NoParameters),
    plugin_type("priority-tier-filter", PriorityTierFilter, NoParameters),
    plugin_type("group-share-filter", GroupShareFilter, NoParameters),
)
