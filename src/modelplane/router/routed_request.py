"""A request on its way through the router's plugins: the picker's request, with its service and its rules."""

from modelplane.epp.scheduling.requests import Request
from modelplane.router.catalog import RoutedService
from modelplane.router.residency import Residency


class RoutedRequest(Request, frozen=True, eq=False, gc=False, kw_only=True):
    """What the router's own plugins read besides what the picker's do."""

    service: RoutedService
    residency: Residency | None = None
    tried: frozenset[str] = frozenset()
    """Endpoints that earlier attempts of this request went to."""
    attempts_left: int = 0
    """How many may follow this one."""
    adapter: str = ""
    """The adapter that the request asks for."""
