"""ModelService: one address over the endpoints that its groups select.

The route stays when no endpoint is ready: clients then get 503, which they retry, and never 404, which they do not.
Groups of the lowest priority that has a ready endpoint get all requests; endpoints of a group share its weight equally.

A rule of an HTTPRoute rewrites all its requests alike, so endpoints that share requests must have the same host and
path. All replicas do, and so do the endpoints of one external provider. Otherwise the host and path with most weight
get the requests, and a condition names the other endpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.labels import DEFAULT_GATEWAY, FLEET_GATEWAY, REPLICA_HEADER, SYSTEM_NAMESPACE, selects
from modelplane.api.models import (
    EndpointCounts,
    EndpointGroup,
    InferenceGateway,
    ModelEndpoint,
    ModelService,
    ModelServiceStatus,
)
from modelplane.api.objects import API_VERSION, Manifest, manifest, text_at, value_at
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Local, Observed, ReadyWhen, Requirement
from modelplane.compose.external import EndpointRewrite, form_of
from modelplane.compose.readiness import has_condition, route_problem

MAX_WEIGHT = 1_000_000
_ROUTE, _GATEWAY, _ENDPOINTS = "route", "gateway", "endpoints"


@dataclass(frozen=True, slots=True)
class Share:
    """An endpoint and its part of the requests."""

    endpoint: ModelEndpoint
    weight: int


def compose(request: ComposeRequest[ModelService]) -> ComposeResult:
    service = request.resource
    requirements = {
        _GATEWAY: Requirement(API_VERSION, "InferenceGateway", name=DEFAULT_GATEWAY),
        _ENDPOINTS: Requirement(API_VERSION, "ModelEndpoint", namespace=service.metadata.namespace),
    }
    fetched = request.fetched(_ENDPOINTS)
    matched = _matched(service.spec.endpoints, fetched or ())
    ready_endpoints = [[endpoint for endpoint, ready in group if ready] for group in matched]
    form, shares, left_out = of_one_form(shared_weights(service.spec.endpoints, ready_endpoints))
    seen = request.observed.get(_ROUTE)
    if fetched is None and seen is not None:
        route = Desired(seen.target, seen.ready)
    else:
        wanted = _http_route(service, form, shares)
        route = Desired(Local(wanted, ReadyWhen.ROUTED), seen is not None and seen.ready and _routes_to(seen, shares))
    total = sum(len(group) for group in matched)
    address = _address(request)
    conditions = (
        _resolved(total, sum(map(len, ready_endpoints)), known=fetched is not None),
        _differing(left_out) or _routed(request, address, route),
    )
    return ComposeResult(
        desired={_ROUTE: route},
        status=ModelServiceStatus(
            address=address, endpoints=EndpointCounts(matched=total, ready=sum(map(len, ready_endpoints)))
        ),
        conditions=conditions,
        ready=summarise(conditions),
        requirements=requirements,
    )


def _matched(groups: Sequence[EndpointGroup], manifests: Sequence[Manifest]) -> list[list[tuple[ModelEndpoint, bool]]]:
    """The endpoints of each group and whether they answer; an endpoint belongs to the first group that selects it."""
    found: list[list[tuple[ModelEndpoint, bool]]] = [[] for _ in groups]
    for item in manifests:
        endpoint = decode(ModelEndpoint, item)
        for members, group in zip(found, groups, strict=True):
            if selects(group.selector, endpoint.metadata.labels):
                members.append((endpoint, has_condition(item, "Ready")))
                break
    return found


def shared_weights(groups: Sequence[EndpointGroup], endpoints: Sequence[Sequence[ModelEndpoint]]) -> list[Share]:
    """Whole weights that keep every group's share exact, for the groups that get requests."""
    usable = [(group, members) for group, members in zip(groups, endpoints, strict=True) if members]
    first = min((group.priority for group, _ in usable), default=None)
    chosen = [(group, members) for group, members in usable if group.priority == first]
    scale = lcm(*(len(members) for _, members in chosen))
    weights = [(endpoint, group.weight * scale // len(members)) for group, members in chosen for endpoint in members]
    return _fitted(weights)


def _fitted(weights: list[tuple[ModelEndpoint, int]]) -> list[Share]:
    """Reduced to the smallest whole numbers and into the range of the Gateway API; none that had a share loses it."""
    divisor = gcd(*(weight for _, weight in weights)) or 1
    largest = max((weight // divisor for _, weight in weights), default=0)
    excess = max(1, -(-largest // MAX_WEIGHT))
    return [
        Share(endpoint, max(1, weight // divisor // excess) if weight else 0)
        for endpoint, weight in sorted(weights, key=lambda pair: pair[0].metadata.name)
    ]


def of_one_form(shares: Sequence[Share]) -> tuple[EndpointRewrite, list[Share], list[Share]]:
    """The form that most of the weight wants, whose endpoints have it, and those that want another."""
    weights: dict[EndpointRewrite, int] = {}
    for share in shares:
        form = form_of(share.endpoint)
        weights[form] = weights.get(form, 0) + share.weight
    chosen = max(weights, key=lambda form: weights[form], default=EndpointRewrite())
    used = [share for share in shares if form_of(share.endpoint) == chosen]
    return chosen, used, [share for share in shares if share not in used]


def _differing(left_out: Sequence[Share]) -> Condition | None:
    if not left_out:
        return None
    names = ", ".join(share.endpoint.metadata.name for share in left_out)
    message = f"{names}: host or path differs from the other endpoints of the priority; set another priority"
    return fails(ConditionType.ROUTE_READY, Reason.NOT_SUPPORTED, message)


def _http_route(service: ModelService, form: EndpointRewrite, shares: list[Share]) -> dict[str, object]:
    prefix = f"/{service.metadata.namespace}/{service.metadata.name}"
    rewrite: dict[str, object] = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": form.path}}
    if form.hostname is not None:
        rewrite["hostname"] = form.hostname
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
        "backendRefs": [_backend(share) for share in shares],
        "timeouts": {"request": "0s"},
    }
    return manifest(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        service.metadata.name,
        namespace=service.metadata.namespace,
        spec={"parentRefs": [{"name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": [rule]},
    )


def _routes_to(seen: Observed, shares: Sequence[Share]) -> bool:
    """Whether the observed route has one of these as a backend; one without answers 503."""
    rules = value_at(seen.manifest, "spec", "rules")
    backends = {
        text_at(backend, "name")
        for rule in (rules if isinstance(rules, list | tuple) else ())
        for backend in rule.get("backendRefs", ())
    }
    return not shares or any(share.endpoint.metadata.name in backends for share in shares)


def _backend(share: Share) -> dict[str, object]:
    endpoint = share.endpoint
    backend: dict[str, object] = {
        "group": "gateway.envoyproxy.io",
        "kind": "Backend",
        "name": endpoint.metadata.name,
        "weight": share.weight,
    }
    filters: list[dict[str, object]] = [_replica_header(endpoint)]
    if endpoint.spec.replica is None and endpoint.spec.auth is not None:
        added = {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": endpoint.metadata.name}
        filters.append({"type": "ExtensionRef", "extensionRef": added})
    return {**backend, "filters": filters}


def _replica_header(endpoint: ModelEndpoint) -> dict[str, object]:
    """Sets the header of a replica, and removes it elsewhere: a client's own would choose a replica of any tenant."""
    replica = endpoint.spec.replica
    if replica is None:
        change: dict[str, object] = {"remove": [REPLICA_HEADER]}
    else:
        change = {"set": [{"name": REPLICA_HEADER, "value": f"{endpoint.metadata.namespace}/{replica.name}"}]}
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": change}


def _address(request: ComposeRequest[ModelService]) -> str | None:
    found = request.fetched(_GATEWAY)
    gateway = decode(InferenceGateway, found[0]) if found else None
    if gateway is None or gateway.status.address is None:
        return request.resource.status.address
    metadata = request.resource.metadata
    scheme = "http" if gateway.spec.tls is None else "https"
    return f"{scheme}://{_authority(gateway, metadata.name)}/{metadata.namespace}/{metadata.name}"


def _authority(gateway: InferenceGateway, service: str) -> str:
    """The host of the address: the gateway's hostname where it has one, with the port of its address."""
    address, hostname = gateway.status.address or "", gateway.spec.hostname
    if hostname is None:
        return address
    has_port = "]:" in address or address.count(":") == 1
    port = address.rpartition(":")[2] if has_port else ""
    return hostname.replace("*", service, 1) + (f":{port}" if port else "")


def _resolved(matched: int, ready: int, *, known: bool) -> Condition:
    kind = ConditionType.ENDPOINTS_RESOLVED
    if not known:
        return unknown(kind, Reason.UNRESOLVED, "the endpoints are not read yet")
    if matched == 0:
        return fails(kind, Reason.NO_ENDPOINTS, "0 endpoints match in this namespace; the address answers 503")
    if ready == 0:
        return fails(kind, Reason.NO_READY_ENDPOINTS, f"0 of {matched} endpoints are ready; the address answers 503")
    return holds(kind, Reason.ENDPOINTS_FOUND, f"{ready} of {matched} endpoints are ready")


def _routed(request: ComposeRequest[ModelService], address: str | None, route: Desired) -> Condition:
    if address is None:
        waiting = request.fetched(_GATEWAY)
        if waiting is None:
            return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "the gateway is not read yet")
        missing = f"InferenceGateway {DEFAULT_GATEWAY} does not exist" if not waiting else "the gateway has no address"
        return fails(ConditionType.ROUTE_READY, Reason.WAITING_FOR_GATEWAY, missing)
    if route.ready:
        return holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED, address)
    seen = request.observed.get(_ROUTE)
    problem = route_problem(seen.manifest) if seen else None
    message = f"the gateway reports {problem}" if problem else "the gateway has not accepted the route yet"
    return fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, message)
