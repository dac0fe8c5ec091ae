"""The services that the router knows, by their plans, with what is learned of their endpoints.

A plan is replaced as a whole. What was learned of an endpoint (its health, what is in flight, what it has cached) stays
with its ModelEndpoint as long as any service has it, and is shared by the services that do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from modelplane.compose.endpoint_routes import endpoint_path
from modelplane.compose.service_plan import PlanEndpoint, PlanOverflow, ServicePlan, model_names
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.router.health import EndpointHealth
from modelplane.router.retries import RetryTokens
from modelplane.router.shares import ShareLedger

ADAPTER_MARK: Final = ":"
"""Between a service's model name and the name of an adapter."""
_REFILL: Final = 0.8
"""An endpoint that is full takes requests again below this part of its limit, so that tiers do not flicker."""


class FleetEndpoint:
    """One ModelEndpoint, and what is learned of it."""

    __slots__ = ("candidate", "health", "is_full", "plan", "served")

    def __init__(self, plan: PlanEndpoint) -> None:
        self.plan = plan
        self.candidate = Endpoint(plan.key, f"{plan.address}:{plan.port}", plan.labels)
        self.health = EndpointHealth()
        self.is_full = False
        self.served: tuple[str, ...] = ()
        """The model names that it lists: its own, then its adapters. Empty: not known."""

    @property
    def model(self) -> str:
        """The name that it knows the model by; empty: not known. The first of a provider's list is any of many.

        A replica's own list is newer than its plan.
        """
        written = self.plan.model or ""
        if self.plan.replica is None or not self.served or written in self.served:
            return written
        return self.served[0]

    def takes_more(self, overflow: PlanOverflow | None, saturation: float) -> bool:
        """Whether it has room by the limits of its group."""
        if overflow is None:
            return True
        factor = _REFILL if self.is_full else 1.0
        limit, percent = overflow.in_flight_per_endpoint, overflow.saturation_percent
        by_count = limit is not None and self.candidate.requests_in_flight >= max(1.0, limit * factor)
        by_load = percent is not None and saturation * 100.0 >= percent * factor
        self.is_full = by_count or by_load
        return not self.is_full


class Member:
    """An endpoint in one service: its plan there, and its tier. Each request reads what is computed here once."""

    __slots__ = ("endpoint", "group", "key", "path", "plan", "priority", "serves")

    def __init__(self, endpoint: FleetEndpoint, plan: PlanEndpoint, priority: int, path: str) -> None:
        self.endpoint = endpoint
        self.plan = plan
        self.priority = priority
        self.path = path
        """The gateway's path for requests that are sent there."""
        self.key = plan.key
        self.group = plan.group
        self.serves = plan.serves


class RoutedService:
    """One service: its members by candidate, and the shares of its tiers."""

    __slots__ = (
        "_in_order", "candidates", "first_priority", "in_flight", "key", "ledgers", "members", "names", "overflowed",
        "plan", "retries", "serving", "weights",
    )  # fmt: skip

    def __init__(self, plan: ServicePlan, members: Iterable[Member], before: "RoutedService | None" = None) -> None:
        self.plan = plan
        self.key = plan.key
        self.names = frozenset((plan.model, *plan.aliases))
        self.members = {member.endpoint.candidate: member for member in members}
        self.candidates = tuple(self.members)
        self._in_order = tuple(self.members.values())
        self.serving = tuple(member for member in self._in_order if member.serves)
        self.first_priority = min([member.priority for member in self.serving], default=0)
        """Of the endpoints that serve."""
        self.ledgers: dict[tuple[int, str], ShareLedger] = before.ledgers if before is not None else {}
        self.in_flight: int = before.in_flight if before is not None else 0
        self.overflowed: int = before.overflowed if before is not None else 0
        """Requests in flight on a lower tier because a higher one was full."""
        self.retries: RetryTokens = before.retries if before is not None else RetryTokens(plan.retries)
        self.retries.follow(plan.retries)
        self.weights: dict[int, dict[str, float]] = {}
        for member in self.members.values():
            groups = self.weights.setdefault(member.priority, {})
            groups[member.group] = groups.get(member.group, 0.0) + member.plan.weight

    def members_of(self, endpoints: Sequence[Endpoint]) -> Sequence[Member]:
        """In the order of the endpoints, which are nearly always all of them."""
        if endpoints is self.candidates:
            return self._in_order
        members = self.members
        return [members[endpoint] for endpoint in endpoints]

    def ledger(self, priority: int, group: str = "") -> ShareLedger:
        """Of the groups of a tier, or of the endpoints of one group."""
        found = self.ledgers.get((priority, group))
        if found is None:
            found = self.ledgers[priority, group] = ShareLedger()
        return found

    def lists(self, model: str) -> bool:
        """Whether some endpoint lists a model of this name."""
        return any(model in member.endpoint.served for member in self.members.values())


class NamedModel:
    """What a model name leads to."""

    __slots__ = ("adapter", "service")

    def __init__(self, service: RoutedService, adapter: str = "") -> None:
        """`adapter` is the one that the name asks for."""
        self.service = service
        self.adapter = adapter


class ServiceCatalog:
    """All services. Replaced plan by plan; `on_change` hears of every set of endpoints."""

    def __init__(self) -> None:
        self.services: Mapping[str, RoutedService] = {}
        self.known = False
        """Whether plans were read at least once."""
        self._endpoints: dict[str, FleetEndpoint] = {}
        self._names: Mapping[str, RoutedService] = {}
        self._adapters: Mapping[str, RoutedService] = {}
        """By the names that replicas list beside their model, where no service has the name."""
        self.on_change: Callable[[tuple[Endpoint, ...]], None] = lambda _endpoints: None

    @property
    def endpoints(self) -> Mapping[str, FleetEndpoint]:
        """By key."""
        return self._endpoints

    def replace(self, plans: Iterable[ServicePlan]) -> None:
        """The services are these and no others."""
        wanted = {plan.key: plan for plan in plans}
        before, self.known = self._endpoints, True
        self._endpoints = {}
        for plan in wanted.values():
            for endpoint in plan.endpoints:
                known = before.get(endpoint.key)
                kept = known if known is not None and _is_same(known.plan, endpoint) else FleetEndpoint(endpoint)
                kept.plan = endpoint
                kept.candidate.labels = endpoint.labels
                if endpoint.replica is None:
                    kept.served = endpoint.models
                self._endpoints.setdefault(endpoint.key, kept)
        self.services = {key: self._service(plan) for key, plan in wanted.items()}
        self._names = {name: self.services[plan.key] for name, plan in model_names(wanted.values()).items()}
        self._find_adapters()
        self.on_change(tuple(endpoint.candidate for endpoint in self._endpoints.values()))

    def named(self, model: str) -> NamedModel | None:
        """The service of a model name: its own, an alias, an adapter, or one of the first two with an adapter."""
        service = self._names.get(model)
        if service is not None:
            return NamedModel(service)
        service = self._adapters.get(model)
        if service is not None:
            return NamedModel(service, model)
        base, mark, adapter = model.rpartition(ADAPTER_MARK)
        service = self._names.get(base) if mark and adapter else None
        return None if service is None else NamedModel(service, adapter)

    def names(self) -> list[tuple[str, RoutedService]]:
        """Every model name with its service, in order."""
        return sorted({**self._adapters, **self._names}.items(), key=lambda named: named[0])

    def learned(self, endpoint: FleetEndpoint, served: tuple[str, ...]) -> None:
        """An endpoint lists these models."""
        if served != endpoint.served:
            endpoint.served = served
            self._find_adapters()

    def refused(self, plan: PlanEndpoint, now_s: float, why: str) -> None:
        """Nobody listens where an endpoint is. That is so for all that are there: replicas of one cluster share it."""
        for other in self._endpoints.values():
            if (other.plan.address, other.plan.port) == (plan.address, plan.port) and other.health.admits(now_s):
                other.health.failed(now_s, why, refused=True)

    def _find_adapters(self) -> None:
        """Of two services whose replicas hold an adapter, the older has its name."""
        found: dict[str, RoutedService] = {}
        for service in sorted(self.services.values(), key=lambda each: (each.plan.created, each.key)):
            for member in service.members.values():
                if member.plan.replica is None:
                    continue  # what a provider has beside the service's model is not the service's name
                for name in member.endpoint.served[1:]:
                    if name not in self._names:
                        found.setdefault(name, service)
        self._adapters = found

    def _service(self, plan: ServicePlan) -> RoutedService:
        members = [
            Member(self._endpoints[endpoint.key], endpoint, tier.priority, endpoint_path(plan, endpoint))
            for tier in plan.tiers
            for endpoint in tier.endpoints
        ]
        return RoutedService(plan, members, self.services.get(plan.key))


def _is_same(known: PlanEndpoint, wanted: PlanEndpoint) -> bool:
    """Whether what was learned of one holds for the other."""
    return (known.address, known.port, known.replica) == (wanted.address, wanted.port, wanted.replica)
