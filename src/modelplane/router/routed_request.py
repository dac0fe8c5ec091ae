"""A request on its way through the router's plugins: the picker's request, with its service and its rules."""

from typing import cast

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.requests import Request
from modelplane.router.catalog import Member, RoutedService
from modelplane.router.residency import Residency


class RoutedRequest(Request, frozen=True, eq=False, gc=False, kw_only=True):
    """What the router's own plugins read besides what the picker's do."""

    service: RoutedService
    residency: Residency | None = None
    tried: frozenset[str] = frozenset()
    """Endpoints that earlier attempts of this request went to."""
    adapter: str = ""
    """The adapter that the request asks for."""


def routed_of(context: SchedulingContext) -> RoutedRequest:
    """The request of a cycle; the router schedules no other."""
    return cast("RoutedRequest", context.request)


def member_of(context: SchedulingContext, endpoint: Endpoint) -> Member:
    return routed_of(context).service.members[endpoint]
