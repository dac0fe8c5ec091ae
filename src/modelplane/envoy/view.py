"""The objects of one gateway, and the problems found in them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal

from modelplane.api.errors import InputError
from modelplane.compose.service_plan import ServicePlan

KubernetesObject = Mapping[str, object]
Resource = dict[str, object]
"""A piece of what Envoy reads."""

# Gateway API's reasons of the conditions Accepted and ResolvedRefs.
ProblemReason = Literal["UnsupportedValue", "BackendNotFound", "InvalidKind", "RefNotPermitted"]

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class TlsCertificate:
    """A certificate with its chain, and its key, both in PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallerKey:
    """A caller and its key."""

    identity: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RouterAddress:
    """Where the fleet router of a gateway listens."""

    host: str
    port: int
    required: bool = False
    """Whether requests wait for it: the static plan would let callers past what they may call."""


@dataclass(frozen=True, slots=True)
class HopTls:
    """How a fleet gateway proves to the gateways of clusters who it is, and checks who they are."""

    authority: str
    """Of both certificates. PEM."""
    server_name: str
    client: TlsCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """One listener and every object its routes may point at, as Kubernetes would hold them.

    `routes` are HTTPRoutes already known to belong to this gateway: `parentRefs` are not read. `services` and
    `slices` are Services and their EndpointSlices, `backends` are Envoy Gateway's Backends, and `grants` are the
    ReferenceGrants without which a route reaches nothing outside its own namespace. `filters` are HTTPRouteFilters,
    which add what `secrets` hold. With a `hostname`, which may begin with `*.`, other hosts get 404. With an
    `identities` it serves TLS and plain HTTP on the same port. `plans` are those of the services that a fleet gateway
    serves, and `credentials` what requests to their ModelEndpoints get, by key. With `callers` only those may call.
    With a `router` every request to a service is decided by it. With a `client_authority` only clients with one of its
    certificates may connect; with a `hop` the gateways of clusters are called so.
    """

    name: str
    host: str
    port: int
    routes: tuple[KubernetesObject, ...] = ()
    services: tuple[KubernetesObject, ...] = ()
    slices: tuple[KubernetesObject, ...] = ()
    backends: tuple[KubernetesObject, ...] = ()
    grants: tuple[KubernetesObject, ...] = ()
    filters: tuple[KubernetesObject, ...] = ()
    secrets: tuple[KubernetesObject, ...] = ()
    identities: tuple[TlsCertificate, ...] = ()
    hostname: str | None = None
    callers: tuple[CallerKey, ...] | None = None
    plans: tuple[ServicePlan, ...] | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    router: RouterAddress | None = None
    client_authority: str = ""
    hop: HopTls | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"gateway {self.name!r}: name: use lower-case letters, digits, '-' and '.'")
        if not _is_loopback(self.host):
            raise InputError(f"gateway {self.name}: host: must be a loopback address, not {self.host!r}")
        if not 1 <= self.port <= _LAST_PORT:
            raise InputError(f"gateway {self.name}: port: must be between 1 and {_LAST_PORT}, not {self.port}")


@dataclass(frozen=True, slots=True)
class GatewayProblem:
    """Something in an object that is not honoured. The rest of the gateway is programmed all the same."""

    gateway: str
    kind: str
    namespace: str
    name: str
    reason: ProblemReason
    message: str

    def __str__(self) -> str:
        return f"gateway {self.gateway}: {self.kind} {self.namespace}/{self.name}: {self.message}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
