"""ModelService: one address over the endpoints that its groups select.

The route stays when no endpoint is ready: clients then get 503, which they retry, and never 404, which they do not.
Groups of the lowest priority that has a ready endpoint get all requests; endpoints of a group share its weight equally.

A rule of an HTTPRoute rewrites all its requests alike, so endpoints that share requests must have the same host and
path. All replicas do, and so do the endpoints of one external provider. Otherwise the host and path with most weight
get the requests, and a condition names the other endpoints.

A backend of the observed route stays until its ModelEndpoint is read as not ready or as absent; see `observed_route`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, lcm

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import DEFAULT_GATEWAY, FLEET_GATEWAY, REPLICA_HEADER, SYSTEM_NAMESPACE, selects
from modelplane.api.models import (
    EndpointCounts,
    EndpointGroup,
    InferenceGateway,
    ModelEndpoint,
    ModelService,
    ModelServiceStatus,
)
from modelplane.api.objects import API_VERSION, Manifest, manifest
from modelplane.api.reasons import Reason
from modelplane.compose.contract import (
    ComposeRequest,
    ComposeResult,
    Desired,
    Local,
    Observed,
    ReadyWhen,
    Requirement,
    keep,
)
from modelplane.compose.endpoint_target import EndpointRewrite, form_of
from modelplane.compose.observed_route import (
    ObservedRoute,
    ReadEndpoint,
    name_of_backend,
    read_endpoints,
    read_route,
)
from modelplane.compose.observed_route import requirements as by_name
from modelplane.compose.readiness import route_problem

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
    seen = request.observed.get(_ROUTE)
    before = read_route(seen.manifest) if seen is not None else ObservedRoute()
    if fetched is not None:
        requirements |= by_name(fetched, before, service.metadata.namespace)
    endpoints = read_endpoints(fetched or (), before, request.required)
    matched = _matched(service.spec.endpoints, endpoints.found)
    usable = [[item.endpoint for item in group if item.ready or item.kept] for group in matched]
    form, shares, left_out = of_one_form(shared_weights(service.spec.endpoints, usable))
    if fetched is None and seen is not None:
        route = keep(seen)
    else:
        route = _route(service, form, shares, seen, endpoints.doubted)
    address = _address(request)
    conditions = (
        _resolved(matched, endpoints.doubted, known=fetched is not None),
        _differing(left_out) or _routed(request, address, route),
    )
    counts = EndpointCounts(matched=sum(map(len, matched)), ready=_ready(matched))
    return ComposeResult(
        desired={_ROUTE: route},
        status=ModelServiceStatus(address=address, endpoints=counts),
        conditions=conditions,
        ready=summarise(conditions),
        requirements=requirements,
    )


def _matched(groups: Sequence[EndpointGroup], endpoints: Iterable[ReadEndpoint]) -> list[list[ReadEndpoint]]:
    """The endpoints of each group; an endpoint belongs to the first group that selects it."""
    found: list[list[ReadEndpoint]] = [[] for _ in groups]
    for item in endpoints:
        for members, group in zip(found, groups, strict=True):
            if selects(group.selector, item.endpoint.metadata.labels):
                members.append(item)
                break
    return found


def _ready(matched: Sequence[Sequence[ReadEndpoint]]) -> int:
    return sum(item.ready for group in matched for item in group)


def _route(
    service: ModelService,
    form: EndpointRewrite,
    shares: Sequence[Share],
    seen: Observed | None,
    doubted: Sequence[str],
) -> Desired:
    """The route to the shares, and to the backends of the observed route that are in doubt.

    One route has one rewrite. Where that of the backends in doubt is another, the observed route stays as it is.
    """
    before = read_route(seen.manifest) if seen is not None else ObservedRoute()
    rewrite = before.rewrite if doubted and not shares else _rewrite(form)
    if seen is not None and doubted and rewrite != before.rewrite:
        return keep(seen)
    backends = [*map(_backend, shares), *(before.backends[name] for name in doubted)]
    ready = seen is not None and seen.ready and _routes_to(before, backends)
    return Desired(Local(_http_route(service, rewrite, backends), ReadyWhen.ROUTED), ready)


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


def _rewrite(form: EndpointRewrite) -> Manifest:
    path = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": form.path}}
    return path if form.hostname is None else {**path, "hostname": form.hostname}


def _http_route(service: ModelService, rewrite: Manifest, backends: Sequence[Manifest]) -> dict[str, object]:
    prefix = f"/{service.metadata.namespace}/{service.metadata.name}"
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
        "backendRefs": list(backends),
        "timeouts": {"request": "0s"},
    }
    return manifest(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        service.metadata.name,
        namespace=service.metadata.namespace,
        spec={"parentRefs": [{"name": FLEET_GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": [rule]},
    )


def _routes_to(before: ObservedRoute, backends: Sequence[Manifest]) -> bool:
    """Whether the observed route has one of these as a backend; one without answers 503."""
    return not backends or any(name_of_backend(backend) in before.backends for backend in backends)


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
    gateway = _gateway(request)
    if gateway is None or gateway.status.address is None:
        return request.resource.status.address
    metadata = request.resource.metadata
    scheme = "http" if gateway.spec.tls is None else "https"
    return f"{scheme}://{_authority(gateway, metadata.name)}/{metadata.namespace}/{metadata.name}"


def _gateway(request: ComposeRequest[ModelService]) -> InferenceGateway | None:
    found = request.fetched(_GATEWAY)
    try:
        return decode(InferenceGateway, found[0]) if found else None
    except InputError:
        return None


def _authority(gateway: InferenceGateway, service: str) -> str:
    """The host of the address: the gateway's hostname where it has one, with the port of its address."""
    address, hostname = gateway.status.address or "", gateway.spec.hostname
    if hostname is None:
        return address
    has_port = "]:" in address or address.count(":") == 1
    port = address.rpartition(":")[2] if has_port else ""
    return hostname.replace("*", service, 1) + (f":{port}" if port else "")


def _resolved(matched: Sequence[Sequence[ReadEndpoint]], doubted: Sequence[str], *, known: bool) -> Condition:
    kind = ConditionType.ENDPOINTS_RESOLVED
    if not known:
        return unknown(kind, Reason.UNRESOLVED, "the endpoints are not read yet")
    total, ready = sum(map(len, matched)), _ready(matched)
    staying = sorted({*doubted, *(item.endpoint.metadata.name for group in matched for item in group if item.kept)})
    if staying:
        message = f"{ready} of {total} endpoints are ready; {len(staying)} cannot be read and stay in the route"
        return unknown(kind, Reason.UNRESOLVED, f"{message} ({staying[0]})")
    if total == 0:
        return fails(kind, Reason.NO_ENDPOINTS, "0 endpoints match in this namespace; the address answers 503")
    if ready == 0:
        return fails(kind, Reason.NO_READY_ENDPOINTS, f"0 of {total} endpoints are ready; the address answers 503")
    return holds(kind, Reason.ENDPOINTS_FOUND, f"{ready} of {total} endpoints are ready")


def _routed(request: ComposeRequest[ModelService], address: str | None, route: Desired) -> Condition:
    if address is None:
        waiting = request.fetched(_GATEWAY)
        if waiting is None:
            return unknown(ConditionType.ROUTE_READY, Reason.UNRESOLVED, "the gateway is not read yet")
        missing = f"InferenceGateway {DEFAULT_GATEWAY} does not exist" if not waiting else "the gateway has no address"
        if waiting and _gateway(request) is None:
            missing = f"InferenceGateway {DEFAULT_GATEWAY} cannot be read"
        return fails(ConditionType.ROUTE_READY, Reason.WAITING_FOR_GATEWAY, missing)
    if route.ready:
        return holds(ConditionType.ROUTE_READY, Reason.ROUTE_CONFIGURED, address)
    seen = request.observed.get(_ROUTE)
    problem = route_problem(seen.manifest) if seen else None
    message = f"the gateway reports {problem}" if problem else "the gateway has not accepted the route yet"
    return fails(ConditionType.ROUTE_READY, Reason.ROUTE_PENDING, message)
