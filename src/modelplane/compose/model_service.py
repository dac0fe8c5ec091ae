"""ModelService: one model name and one address over the endpoints that its groups select.

The plan (`service_plan`) says who gets its requests; this composes the objects of Envoy Gateway for it, and its status.
The route stays when no endpoint is ready: clients then get 503, which they retry, and never 404, which they do not.

Every InferenceGateway whose `serviceSelector` matches serves it: its Gateway is a parent of the route. Ready needs each
one that has an address to have accepted the route; a gateway that is still coming up is left out.

A backend of the observed route stays until its ModelEndpoint is read as not ready or as absent; see `observed_route`.
"""

from collections.abc import Sequence

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.errors import InputError
from modelplane.api.labels import DEFAULT_GATEWAY, selects
from modelplane.api.models import (
    EndpointCounts,
    InferenceGateway,
    ModelService,
    ModelServiceStatus,
    RouteCounts,
)
from modelplane.api.objects import API_VERSION, Manifest, items_at, name_of, text_at
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
from modelplane.compose.endpoint_routes import endpoint_routes
from modelplane.compose.fleet_gateways import (
    composes_router,
    gateway_object_name,
    has_router,
    is_serving,
    route_accepted,
)
from modelplane.compose.gateway_routes import (
    backend_ref,
    endpoint_policy,
    http_route,
    path_rewrite,
    static_route,
    traffic_policy,
    unserved_filter,
)
from modelplane.compose.observed_route import ObservedRoute, ReadEndpoints, name_of_backend, read_endpoints, read_route
from modelplane.compose.observed_route import requirements as by_name
from modelplane.compose.readiness import route_problem
from modelplane.compose.service_plan import ServicePlan, service_plan
from modelplane.compose.service_status import tier_statuses

_ROUTE, _POLICY, _UNSERVED, _GATEWAYS, _ENDPOINTS = "route", "policy", "unserved", "gateways", "endpoints"
_ENDPOINT_ROUTES, _ENDPOINT_POLICY = "endpoints-", "endpoint-policy"


def compose(request: ComposeRequest[ModelService]) -> ComposeResult:
    service = request.resource
    requirements = {
        _GATEWAYS: Requirement(API_VERSION, "InferenceGateway"),
        _ENDPOINTS: Requirement(API_VERSION, "ModelEndpoint", namespace=service.metadata.namespace),
    }
    fetched, seen = request.fetched(_ENDPOINTS), request.observed.get(_ROUTE)
    before = read_route(seen.manifest) if seen is not None else ObservedRoute()
    if fetched is not None:
        requirements |= by_name(fetched, before, service.metadata.namespace)
    endpoints = read_endpoints(fetched or (), before, request.required)
    plan = service_plan(service, endpoints.found)
    gateways = _serving_gateways(request)
    route = _route(request, plan, gateways, endpoints.doubted)
    conditions = (_resolved(plan, endpoints, known=fetched is not None), _routed(request, gateways, route, plan))
    return ComposeResult(
        desired={
            _ROUTE: route,
            _POLICY: _seen(request, _POLICY, traffic_policy(plan)),
            _UNSERVED: _seen(request, _UNSERVED, unserved_filter(plan)),
            **_router_objects(request, plan, gateways, endpoints.doubted),
        },
        status=_status(request, plan, gateways),
        conditions=conditions,
        ready=summarise(conditions),
        requirements=requirements,
    )


def _status(
    request: ComposeRequest[ModelService], plan: ServicePlan, gateways: Sequence[InferenceGateway] | None
) -> ModelServiceStatus:
    seen = request.observed.get(_ROUTE)
    addressed = [gateway for gateway in gateways or () if gateway.status.address is not None]
    accepted = [each for each in addressed if seen and route_accepted(seen.manifest, gateway_object_name(each))]
    counts = EndpointCounts(matched=len(plan.endpoints), ready=sum(endpoint.ready for endpoint in plan.endpoints))
    return ModelServiceStatus(
        model=plan.model,
        address=_address(request, gateways),
        endpoints=counts,
        routes=RouteCounts(total=len(addressed), ready=len(accepted)),
        tiers=tier_statuses(plan),
    )


def _serving_gateways(request: ComposeRequest[ModelService]) -> list[InferenceGateway] | None:
    """The gateways that serve it, the default one first; None until they are read."""
    found = request.fetched(_GATEWAYS)
    if found is None:
        return None
    gateways = [gateway for gateway in map(_read_gateway, found) if gateway is not None and is_serving(gateway)]
    chosen = [each for each in gateways if selects(each.spec.service_selector, request.resource.metadata.labels)]
    return sorted(chosen, key=lambda each: (each.metadata.name != DEFAULT_GATEWAY, each.metadata.name))


def _read_gateway(item: Manifest) -> InferenceGateway | None:
    try:
        return decode(InferenceGateway, item)
    except InputError:
        return None


def _route(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateways: Sequence[InferenceGateway] | None,
    doubted: Sequence[str],
) -> Desired:
    """The route to the endpoints, and to the backends of the observed route that are in doubt.

    One route has one rewrite. Where that of the backends in doubt is another, the observed route stays as it is.
    """
    seen = request.observed.get(_ROUTE)
    if seen is not None and (request.fetched(_ENDPOINTS) is None or gateways is None):
        return keep(seen)
    before = read_route(seen.manifest) if seen is not None else ObservedRoute()
    static = static_route(plan)
    rewrite = before.rewrite if doubted and not static.endpoints else path_rewrite(static)
    if seen is not None and doubted and rewrite != before.rewrite:
        return keep(seen)
    backends = [*map(backend_ref, static.endpoints), *(before.backends[name] for name in doubted)]
    names = [*_parents(gateways or ()), *_unread_parents(request, seen)] or [gateway_object_name(None)]
    ready = seen is not None and seen.ready and _routes_to(before, backends)
    return Desired(Local(http_route(plan, names, rewrite, backends), ReadyWhen.ROUTED), ready)


def _parents(gateways: Sequence[InferenceGateway]) -> list[str]:
    """Those that have an address, else all. Without any the default one, so that the route is there when it is."""
    addressed = [gateway for gateway in gateways if gateway.status.address is not None]
    return [gateway_object_name(gateway) for gateway in addressed or gateways]


def _unread_parents(request: ComposeRequest[ModelService], seen: Observed | None) -> list[str]:
    """Gateways of the observed route stay while some InferenceGateway cannot be read."""
    if seen is None or not _unreadable(request):
        return []
    known = {gateway_object_name(each) for each in _serving_gateways(request) or ()}
    parents = (text_at(parent, "name") for parent in items_at(seen.manifest, "spec", "parentRefs"))
    return [name for name in parents if name and name not in known]


def _unreadable(request: ComposeRequest[ModelService]) -> list[str]:
    return [name_of(item) for item in request.fetched(_GATEWAYS) or () if _read_gateway(item) is None]


def _seen(request: ComposeRequest[ModelService], key: str, item: Manifest) -> Desired:
    return Desired(Local(item), ready=key in request.observed)


def _endpoint_routes(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateways: Sequence[InferenceGateway] | None,
    doubted: Sequence[str],
) -> dict[str, Desired]:
    """The routes of single endpoints, for the gateways with a fleet router. Those of before stay while in doubt."""
    before = {key: seen for key, seen in request.observed.items() if key.startswith(_ENDPOINT_ROUTES)}
    if before and (request.fetched(_ENDPOINTS) is None or gateways is None or doubted):
        return {key: keep(seen) for key, seen in before.items()}
    names = [gateway_object_name(each) for each in gateways or () if composes_router(each, embedded=request.embedded)]
    made = endpoint_routes(plan, names) if names else {}
    return {
        key: _seen(request, key, route)
        for key, route in ((f"{_ENDPOINT_ROUTES}{name}", route) for name, route in made.items())
    }


def _router_objects(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateways: Sequence[InferenceGateway] | None,
    doubted: Sequence[str],
) -> dict[str, Desired]:
    """The routes of single endpoints, and their policy, which must be there before them."""
    routes, policy = _endpoint_routes(request, plan, gateways, doubted), request.observed.get(_ENDPOINT_POLICY)
    if policy is not None and gateways is None:
        return {**routes, _ENDPOINT_POLICY: keep(policy)}
    if not routes and not any(composes_router(each, embedded=request.embedded) for each in gateways or ()):
        return {}
    known = routes if policy is not None else {key: each for key, each in routes.items() if key in request.observed}
    return {**known, _ENDPOINT_POLICY: _seen(request, _ENDPOINT_POLICY, endpoint_policy(plan))}


def _routes_to(before: ObservedRoute, backends: Sequence[Manifest]) -> bool:
    """Whether the observed route has one of these as a backend; one without answers 503."""
    return not backends or any(name_of_backend(backend) in before.backends for backend in backends)


def _address(request: ComposeRequest[ModelService], gateways: Sequence[InferenceGateway] | None) -> str | None:
    metadata = request.resource.metadata
    gateway = next((each for each in gateways or () if each.status.address is not None), None)
    if gateway is None:
        return request.resource.status.address
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


def _resolved(plan: ServicePlan, endpoints: ReadEndpoints, *, known: bool) -> Condition:
    kind = ConditionType.ENDPOINTS_RESOLVED
    if not known:
        return unknown(kind, Reason.UNRESOLVED, "the endpoints are not read yet")
    planned = {endpoint.name for endpoint in plan.endpoints}
    kept = {item.endpoint.metadata.name for item in endpoints.found if item.kept} & planned
    total, ready = len(plan.endpoints), sum(endpoint.ready for endpoint in plan.endpoints) - len(kept)
    staying = sorted({*endpoints.doubted, *kept})
    if staying:
        message = f"{ready} of {total} endpoints are ready; {len(staying)} cannot be read and stay in the route"
        return unknown(kind, Reason.UNRESOLVED, f"{message} ({staying[0]})")
    if total == 0:
        return fails(kind, Reason.NO_ENDPOINTS, "0 endpoints match in this namespace; the address answers 503")
    if ready == 0:
        return fails(kind, Reason.NO_READY_ENDPOINTS, f"0 of {total} endpoints are ready; the address answers 503")
    return holds(kind, Reason.ENDPOINTS_FOUND, f"{ready} of {total} endpoints are ready")


def _routed(
    request: ComposeRequest[ModelService],
    gateways: Sequence[InferenceGateway] | None,
    route: Desired,
    plan: ServicePlan,
) -> Condition:
    kind, address = ConditionType.ROUTE_READY, _address(request, gateways)
    missing = _without_gateway(request, gateways)
    if missing is not None:
        return missing
    if route.ready and address is not None:
        return holds(kind, Reason.ROUTE_CONFIGURED, address + _limits(request, plan, gateways or ()))
    seen = request.observed.get(_ROUTE)
    problem = route_problem(seen.manifest) if seen else None
    message = f"the gateway reports {problem}" if problem else "the gateway has not accepted the route yet"
    return fails(kind, Reason.ROUTE_PENDING, message)


def _without_gateway(
    request: ComposeRequest[ModelService], gateways: Sequence[InferenceGateway] | None
) -> Condition | None:
    kind = ConditionType.ROUTE_READY
    if request.resource.status.address is not None and not gateways:
        return None
    if gateways is None:
        return unknown(kind, Reason.UNRESOLVED, "the gateways are not read yet")
    if not gateways:
        found, unreadable = request.fetched(_GATEWAYS) or (), _unreadable(request)
        if unreadable:
            return fails(kind, Reason.WAITING_FOR_GATEWAY, f"InferenceGateway {unreadable[0]} cannot be read")
        why = f"0 of {len(found)} InferenceGateways serve this service" if found else "no InferenceGateway exists"
        return fails(kind, Reason.WAITING_FOR_GATEWAY, why)
    if all(gateway.status.address is None for gateway in gateways):
        return fails(kind, Reason.WAITING_FOR_GATEWAY, f"InferenceGateway {gateways[0].metadata.name} has no address")
    return None


def _limits(request: ComposeRequest[ModelService], plan: ServicePlan, gateways: Sequence[InferenceGateway]) -> str:
    """What the plan says and weights alone cannot do."""
    if gateways and all(has_router(each, embedded=request.embedded) for each in gateways):
        return ""
    static, notes = static_route(plan), []
    if static.left_out:
        names = ", ".join(endpoint.name for endpoint in static.left_out[:3])
        notes.append(f"on Envoy Gateway {names} needs the fleet router: its path differs, or the rule is full")
    if any(endpoint.overflow is not None for endpoint in plan.endpoints):
        notes.append("overflow is acted on by the fleet router only")
    return "".join(f"; {note}" for note in notes)
