"""What the router's plugins read of a cycle."""

from collections.abc import Sequence
from typing import cast

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.router.catalog import Member
from modelplane.router.routed_request import RoutedRequest


def routed_of(context: SchedulingContext) -> RoutedRequest:
    """The request of a cycle; the router schedules no other."""
    return cast("RoutedRequest", context.request)


def member_of(context: SchedulingContext, endpoint: Endpoint) -> Member:
    return routed_of(context).service.members[endpoint]


def members_of(context: SchedulingContext, endpoints: Sequence[Endpoint]) -> Sequence[Member]:
    return routed_of(context).service.members_of(endpoints)
