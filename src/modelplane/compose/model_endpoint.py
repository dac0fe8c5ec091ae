"""ModelEndpoint: the gateway's view of something that answers requests."""

import ipaddress
import re

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise
from modelplane.api.models import ModelEndpoint, ModelEndpointStatus, Routing
from modelplane.api.names import is_dns_subdomain
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, kept
from modelplane.compose.manifests import manifest

_BACKEND = "backend"
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[^?#]*)?")
_MAX_PORT = 65535


def compose(request: ComposeRequest[ModelEndpoint]) -> ComposeResult:
    endpoint = request.resource
    parsed = _parse(endpoint.spec.url)
    if parsed is None:
        message = f"spec.url: {endpoint.spec.url!r} is no http or https URL of a host that may be called"
        return _short(request, fails(ConditionType.ROUTE_READY, Reason.INVALID, message))
    if endpoint.spec.auth is not None or endpoint.spec.url.startswith("https://"):
        message = "this build routes to plain HTTP endpoints without credentials only"
        return _short(request, fails(ConditionType.ROUTE_READY, Reason.NOT_SUPPORTED, message))
    backend = manifest(
        "gateway.envoyproxy.io/v1alpha1",
        "Backend",
        endpoint.metadata.name,
        namespace=endpoint.metadata.namespace,
        spec={"type": "Endpoints", "endpoints": [parsed]},
    )
    seen = request.observed.get(_BACKEND)
    ready = seen is not None and seen.ready
    condition = (
        holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED)
        if ready
        else fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, "the gateway's backend is not there yet")
    )
    return ComposeResult(
        desired={_BACKEND: Desired(Local(backend), ready)},
        status=ModelEndpointStatus(routing=Routing(backend_name=endpoint.metadata.name) if ready else None),
        conditions=(condition,),
        ready=summarise([condition]),
    )


def _short(request: ComposeRequest[ModelEndpoint], problem: Condition) -> ComposeResult:
    return ComposeResult(desired=kept(request), conditions=(problem,), ready=summarise([problem]))


def _parse(url: str) -> dict[str, object] | None:
    """The host and port of a URL as a Backend writes them: addresses and names have different fields."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, host, port_text, _ = found.groups()
    port = int(port_text) if port_text else {"http": 80, "https": 443}[scheme]
    if not 0 < port <= _MAX_PORT:
        return None
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return {"fqdn": {"hostname": host, "port": port}} if is_dns_subdomain(host.lower()) else None
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return None  # metadata services live there, models do not
    return {"ip": {"address": str(address), "port": port}}
