"""The static plan of a ModelService: who gets its requests, in which order and shares, and what each one needs.

A pure value of the service and its endpoints. Everything that programs a gateway is rendered from it: the embedded
Envoy, the objects of Envoy Gateway, and the fleet router, which reads it as JSON (`plan_document`, `read_plan`). A
router chooses better than weights do; when it is away, gateways go on by this plan.

Tiers are in the order of fallback, numbered by the service's own priorities. Every endpoint that the service selects is
in its tier: one that gets no requests has `ready` False and the reason. The weights of a tier are whole numbers that
keep every group's share exact; endpoints of a group share its weight equally.

A plan has no secret in it: a credential is the reference to a Secret.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

import msgspec

from modelplane.api.labels import LISTED, selects
from modelplane.api.models import EndpointGroup, ModelService, Overflow
from modelplane.api.names import is_address
from modelplane.compose.canary_weights import with_canary_weights
from modelplane.compose.durations import seconds_of
from modelplane.compose.endpoint_target import CredentialRef, EndpointTarget, credential_of, endpoint_target
from modelplane.compose.observed_route import ReadEndpoint

MAX_WEIGHT = 1_000_000
PLAN_VERSION = 1
_NOT_READY = "NotReady"
_INVALID = "Invalid"
_NOT_LISTED = "ModelNotListed"


@dataclass(frozen=True, slots=True)
class PlanOverflow:
    """When an endpoint takes no more, and requests go to the next tier. The router acts on it; weights cannot."""

    in_flight_per_endpoint: int | None = None
    saturation_percent: int | None = None
    max_percent: int = 100


@dataclass(frozen=True, slots=True)
class PlanEndpoint:
    """An endpoint, and what a request must become for it."""

    key: str
    """Namespace and name of the ModelEndpoint, with a slash between them."""
    group: str
    weight: int
    """Its share of the tier's requests; 0 while it is not ready."""
    secure: bool
    address: str
    """A host name or an IP address."""
    port: int
    host: str | None
    """The Host header that it wants; None leaves the caller's."""
    prefix: str = "/v1"
    """The path that takes the place of /v1."""
    schema: str = "OpenAI"
    model: str | None = None
    """The name that it knows the model by; None passes the caller's on."""
    credential: CredentialRef | None = None
    replica: str | None = None
    """The value of the header that chooses the replica at its cluster's gateway; None for providers."""
    listed: bool = False
    """Whether the replica's route also takes requests that list several replicas."""
    cluster: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    overflow: PlanOverflow | None = None
    ready: bool = True
    reason: str = ""
    """Why it gets no requests."""
    message: str = ""
    models: tuple[str, ...] = ()
    """What a provider lists, where all of it is known."""
    addresses: tuple[str, ...] = ()
    """What its host name resolved to and was permitted."""

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def is_named(self) -> bool:
        """Whether it has a host name, and not an address."""
        return not is_address(self.address)

    @property
    def targets(self) -> tuple[str, ...]:
        """The addresses that are connected to. Nobody resolves its name again: that may lead elsewhere."""
        return self.addresses if self.is_named else (self.address,)

    @property
    def serves(self) -> bool:
        """Whether requests go to it."""
        return self.ready and self.weight > 0


@dataclass(frozen=True, slots=True)
class PlanTier:
    """The endpoints of one priority."""

    priority: int
    endpoints: tuple[PlanEndpoint, ...] = ()

    @property
    def serving(self) -> tuple[PlanEndpoint, ...]:
        return tuple(endpoint for endpoint in self.endpoints if endpoint.serves)


@dataclass(frozen=True, slots=True)
class PlanTimeouts:
    """In seconds; 0 is no limit."""

    request_s: float = 300.0
    idle_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many requests may be tried again, as a share of a service's requests, and never fewer than the minimum.

    Envoy counts both at a time, so that only above the minimum the share binds. The fleet router counts by rate, with
    the minimum as a reserve (`router.retries`). It is what a cluster that goes dark takes with it until it is ejected.
    """

    budget_percent: int = 10
    min_concurrency: int = 256


@dataclass(frozen=True, slots=True)
class ServicePlan:
    namespace: str
    name: str
    aliases: tuple[str, ...] = ()
    created: str = ""
    """When the service was created: of two that declare an alias, the older has it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    tiers: tuple[PlanTier, ...] = ()
    timeouts: PlanTimeouts = PlanTimeouts()
    retries: RetryBudget = RetryBudget()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def model(self) -> str:
        """The name that callers put into `model`."""
        return self.key

    @property
    def endpoints(self) -> tuple[PlanEndpoint, ...]:
        return tuple(endpoint for tier in self.tiers for endpoint in tier.endpoints)

    @property
    def serving(self) -> tuple[PlanTier, ...]:
        """The tiers that can answer, in order."""
        return tuple(tier for tier in self.tiers if tier.serving)


class PlanDocument(msgspec.Struct, frozen=True):
    """A plan as it is written down."""

    plan: ServicePlan
    version: int = PLAN_VERSION


def service_plan(service: ModelService, endpoints: Iterable[ReadEndpoint]) -> ServicePlan:
    """The plan over the endpoints of the service's namespace."""
    groups = service.spec.endpoints
    members = matched_endpoints(groups, endpoints)
    priorities = sorted({group.priority for group, found in zip(groups, members, strict=True) if found})
    metadata, timeouts = service.metadata, service.spec.timeouts
    return ServicePlan(
        metadata.namespace,
        metadata.name,
        service.spec.aliases,
        metadata.creation_timestamp or "",
        metadata.labels,
        tuple(_tier(priority, groups, members) for priority in priorities),
        PlanTimeouts(seconds_of(timeouts.request), seconds_of(timeouts.idle)),
    )


def plan_document(plan: ServicePlan) -> bytes:
    """The plan as JSON."""
    return msgspec.json.encode(PlanDocument(plan), order="deterministic")


def read_plan(document: bytes | str) -> ServicePlan:
    """msgspec.ValidationError for anything that is no plan of this version."""
    found = msgspec.json.decode(document, type=PlanDocument)
    if found.version != PLAN_VERSION:
        raise msgspec.ValidationError(f"the plan has version {found.version}, not {PLAN_VERSION}")
    return found.plan


def model_names(plans: Iterable[ServicePlan]) -> dict[str, ServicePlan]:
    """Whose requests a model name leads to. A service's own name beats an alias, and of two aliases the older wins."""
    found: dict[str, ServicePlan] = {}
    in_order = sorted(plans, key=lambda plan: (plan.created, plan.key))
    for plan in in_order:
        found[plan.model] = plan
    for plan in in_order:
        for alias in plan.aliases:
            found.setdefault(alias, plan)
    return found


def matched_endpoints(groups: Sequence[EndpointGroup], endpoints: Iterable[ReadEndpoint]) -> list[list[ReadEndpoint]]:
    """The endpoints of each group; an endpoint belongs to the first group that selects it."""
    found: list[list[ReadEndpoint]] = [[] for _ in groups]
    for item in sorted(endpoints, key=lambda item: item.endpoint.metadata.name):
        for members, group in zip(found, groups, strict=True):
            if selects(group.selector, item.endpoint.metadata.labels):
                members.append(item)
                break
    return found


def _tier(priority: int, groups: Sequence[EndpointGroup], members: Sequence[Sequence[ReadEndpoint]]) -> PlanTier:
    chosen = [
        (f"group-{number}" if group.name is None else group.name, group, found)
        for number, (group, found) in enumerate(zip(groups, members, strict=True))
        if group.priority == priority
    ]
    weights = iter(exact_weights([(group.weight, sum(map(_is_usable, found))) for _, group, found in chosen]))
    endpoints = [
        _endpoint(item, name, group, weight if _is_usable(item) else 0)
        for (name, group, found), weight in zip(chosen, weights, strict=True)
        for item in found
    ]
    shares = _fitted(with_canary_weights([(endpoint.labels, endpoint.weight) for endpoint in endpoints]))
    shared = (replace(endpoint, weight=share) for endpoint, share in zip(endpoints, shares, strict=True))
    return PlanTier(priority, tuple(sorted(shared, key=lambda endpoint: endpoint.key)))


def exact_weights(groups: Sequence[tuple[int, int]]) -> list[int]:
    """The weight of one endpoint of each group, given the groups' weights and sizes.

    The smallest whole numbers that keep the shares exact, or nearly so where they would leave the range of the Gateway
    API. A group that has a share never loses it.
    """
    scale = lcm(*(size for _, size in groups if size))
    return _fitted([weight * scale // size if size else 0 for weight, size in groups])


def _fitted(exact: Sequence[int]) -> list[int]:
    if not any(exact):
        return list(exact)
    divisor = gcd(*exact)
    excess = -(-max(exact) // divisor // MAX_WEIGHT)
    return [max(1, weight // divisor // excess) if weight else 0 for weight in exact]


def _is_usable(item: ReadEndpoint) -> bool:
    return (item.ready or item.kept) and endpoint_target(item.endpoint) is not None and not _lacks_model(item)


def _lacks_model(item: ReadEndpoint) -> bool:
    """Whether a provider is known not to have the model. One that lists nothing says nothing."""
    model, listed = item.endpoint.spec.model, _listed(item)
    return model is not None and bool(listed) and model not in listed


def _listed(item: ReadEndpoint) -> tuple[str, ...]:
    """The names that a provider lists at its address, unless there are more than are kept."""
    found, target = item.models, endpoint_target(item.endpoint)
    if found is None or target is None or item.endpoint.spec.replica is not None or found.url != target.models_url:
        return ()
    return found.names if found.total == len(found.names) else ()


def _endpoint(item: ReadEndpoint, name: str, group: EndpointGroup, weight: int) -> PlanEndpoint:
    endpoint, target = item.endpoint, endpoint_target(item.endpoint)
    replica, metadata = endpoint.spec.replica, endpoint.metadata
    reason, message = _left_out(item, target)
    return PlanEndpoint(
        key=f"{metadata.namespace}/{metadata.name}",
        group=name,
        weight=weight,
        secure=target is not None and target.address.secure,
        address=target.address.host if target is not None else "",
        port=target.address.port if target is not None else 0,
        host=target.authority if target is not None and replica is None else None,
        prefix=target.prefix if target is not None else "",
        schema=endpoint.spec.api.schema,
        model=endpoint.spec.model,
        credential=credential_of(endpoint) if replica is None else None,
        replica=f"{metadata.namespace}/{replica.name}" if replica is not None else None,
        listed=replica is not None and metadata.annotations.get(LISTED) == "true",
        cluster=replica.cluster_name if replica is not None else None,
        labels=metadata.labels,
        overflow=_overflow(group.overflow),
        ready=_is_usable(item),
        reason=reason,
        message=message,
        models=_listed(item),
        addresses=_addresses(item, target),
    )


def _addresses(item: ReadEndpoint, target: EndpointTarget | None) -> tuple[str, ...]:
    """Those of another origin count for nothing."""
    return item.addresses if target is not None and target.address.by_name and item.origin == target.origin else ()


def _left_out(item: ReadEndpoint, target: EndpointTarget | None) -> tuple[str, str]:
    if target is None:
        return _INVALID, "the address is not an http or https URL"
    if _lacks_model(item):
        return _NOT_LISTED, f"{target.origin} lists {len(_listed(item))} models, and not {item.endpoint.spec.model}"
    if item.ready or item.kept:
        return "", ""
    return item.reason or _NOT_READY, item.message or "the endpoint is not ready"


def _overflow(given: Overflow | None) -> PlanOverflow | None:
    if given is None:
        return None
    return PlanOverflow(given.in_flight_per_endpoint, given.saturation_percent, given.max_percent)
