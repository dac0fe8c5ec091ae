"""ModelService: one model name and one address over the endpoints that its groups select.

The plan (`service_plan`) says who gets its requests; this composes the objects of Envoy Gateway for it, and its status.
The route stays when no endpoint is ready: clients then get 503, which they retry, and never 404, which they do not.

Every InferenceGateway whose `serviceSelector` matches serves it: its Gateway is a parent of the route, or, where it
runs on a cluster, of a route there (`cluster_routes`). Ready needs each one that has an address to have accepted the
route; a gateway that is still coming up is left out.

A backend of the observed route stays until its ModelEndpoint is read as not ready or as absent; see `observed_route`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modelplane.api.conditions import Condition, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import (
    EndpointCounts,
    GatewayRoute,
    InferenceGateway,
    ModelService,
    ModelServiceStatus,
    RouteCounts,
)
from modelplane.api.objects import API_VERSION, Manifest
from modelplane.api.reasons import Reason
from modelplane.compose.cluster_routes import (
    RemoteGateway,
    kept_at,
    observed_at,
    observed_endpoints,
    place_desired,
    place_requirements,
)
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
    object_name_of,
    route_accepted,
    runs_on,
)
from modelplane.compose.gateway_routes import (
    StaticRoute,
    backend_refs,
    endpoint_policy,
    http_route,
    path_rewrite,
    static_route,
    traffic_policy,
    unserved_filter,
)
from modelplane.compose.object_names import local_names
from modelplane.compose.observed_route import ObservedRoute, ReadEndpoints, name_of_backend, read_endpoints, read_route
from modelplane.compose.observed_route import requirements as by_name
from modelplane.compose.readiness import route_problem
from modelplane.compose.service_gateways import (
    gateway_requirements,
    listed_gateways,
    observed_parents,
    remote_gateways,
    serving_gateways,
    undecided_gateways,
    unreadable_gateways,
)
from modelplane.compose.service_plan import ServicePlan, service_plan
from modelplane.compose.service_status import tier_statuses

_ROUTE, _POLICY, _UNSERVED, _ENDPOINTS = "route", "policy", "unserved", "endpoints"
_ENDPOINT_ROUTES, _ENDPOINT_POLICY = "endpoints-", "endpoint-policy"
_MOST_GATEWAYS = 256


def compose(request: ComposeRequest[ModelService]) -> ComposeResult:
    service = request.resource
    requirements = {
        **gateway_requirements(request),
        _ENDPOINTS: Requirement(API_VERSION, "ModelEndpoint", namespace=service.metadata.namespace),
    }
    fetched, before = request.fetched(_ENDPOINTS), _observed_route(request)
    if fetched is not None:
        requirements |= by_name(fetched, before, service.metadata.namespace)
    endpoints = read_endpoints(fetched or (), before, request.required)
    plan = service_plan(service, endpoints.found)
    gateways = serving_gateways(request)
    remote = remote_gateways(request)
    local = None if gateways is None else [each for each in gateways if not _is_remote(request, each)]
    route = _route(request, plan, local, endpoints.doubted)
    conditions = (
        _resolved(plan, endpoints, known=fetched is not None),
        _routed(request, gateways, route, plan, remote),
    )
    return ComposeResult(
        desired={
            _ROUTE: route,
            _POLICY: _seen(request, _POLICY, traffic_policy(plan)),
            _UNSERVED: _seen(request, _UNSERVED, unserved_filter(plan)),
            **_router_objects(request, plan, local, endpoints.doubted),
            **_remote_objects(request, plan, remote, endpoints.doubted),
        },
        status=_status(request, plan, gateways, remote),
        conditions=conditions,
        ready=summarise(conditions),
        requirements={**requirements, **place_requirements(plan, remote.values())},
    )


def _observed_route(request: ComposeRequest[ModelService]) -> ObservedRoute:
    """The route beside the control plane, and the endpoints that have a Backend at any other gateway."""
    seen = request.observed.get(_ROUTE)
    found = read_route(seen.manifest) if seen is not None else ObservedRoute()
    elsewhere: dict[str, Manifest] = {name: {} for name in sorted(observed_endpoints(request.observed))}
    return replace(found, backends={**elsewhere, **found.backends})


def _is_remote(request: ComposeRequest[ModelService], gateway: InferenceGateway) -> bool:
    return runs_on(gateway, embedded=request.embedded) is not None


def _remote_objects(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    remote: Mapping[str, RemoteGateway],
    doubted: Sequence[str],
) -> dict[str, Desired]:
    """What is at a gateway stays while it is not known whether it serves, and while the endpoints are not read."""
    unread = request.fetched(_ENDPOINTS) is None
    desired: dict[str, Desired] = {}
    for name in (*undecided_gateways(request), *(remote if unread else ())):
        desired |= kept_at(name, observed_at(request.observed, name))
    for each in remote.values() if not unread else ():
        desired |= place_desired(request, plan, each, doubted)
    return desired


def _status(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateways: Sequence[InferenceGateway] | None,
    remote: Mapping[str, RemoteGateway],
) -> ModelServiceStatus:
    addressed = [gateway for gateway in gateways or () if gateway.status.address is not None]
    accepted = [each for each in addressed if _accepts(request, each, remote)]
    counts = EndpointCounts(matched=len(plan.endpoints), ready=sum(endpoint.ready for endpoint in plan.endpoints))
    shown = [_gateway_route(request, plan, each, remote) for each in gateways or ()]
    return ModelServiceStatus(
        model=plan.model,
        address=_address(request, gateways),
        endpoints=counts,
        routes=RouteCounts(total=len(addressed), ready=len(accepted)),
        gateways=tuple(shown[:_MOST_GATEWAYS]) if gateways is not None else request.resource.status.gateways,
        tiers=tier_statuses(plan),
    )


def _gateway_route(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateway: InferenceGateway,
    remote: Mapping[str, RemoteGateway],
) -> GatewayRoute:
    """What the service is at one gateway."""
    at, ready = remote.get(gateway.metadata.name), [each for each in plan.endpoints if each.ready]
    return GatewayRoute(
        name=gateway.metadata.name,
        cluster_name=at.cluster if at is not None else None,
        address=_address_at(request, gateway) if gateway.status.address is not None else None,
        accepted=_accepts(request, gateway, remote),
        endpoints=sum(at is None or at.reaches(endpoint) for endpoint in ready),
    )


def _accepts(
    request: ComposeRequest[ModelService], gateway: InferenceGateway, remote: Mapping[str, RemoteGateway]
) -> bool:
    at, seen = remote.get(gateway.metadata.name), request.observed.get(_ROUTE)
    if at is not None:
        return at.accepts
    return seen is not None and route_accepted(seen.manifest, gateway_object_name(gateway))


def _route(
    request: ComposeRequest[ModelService],
    plan: ServicePlan,
    gateways: Sequence[InferenceGateway] | None,
    doubted: Sequence[str],
) -> Desired:
    """The route to the endpoints, and to the backends of the observed route that are in doubt.

    One route has one rewrite. Where that of the backends in doubt is another, the observed route stays as it is. Where
    they are joined with others, nobody joins meanwhile.
    """
    seen = request.observed.get(_ROUTE)
    if seen is not None and (request.fetched(_ENDPOINTS) is None or gateways is None):
        return keep(seen)
    before = read_route(seen.manifest) if seen is not None else ObservedRoute()
    static, doubted = static_route(plan), [name for name in doubted if name in before.backends]
    rewrite = before.rewrite if doubted and not static.endpoints else path_rewrite(static)
    if seen is not None and doubted and rewrite != before.rewrite:
        return keep(seen)
    backends, joined = backend_refs(static, local_names(plan)), static.joined
    if doubted and (joined or before.joined):
        backends, joined = _backends_of_before(static, before), before.joined
    backends += [before.backends[name] for name in doubted]
    names = [*_parents(request, gateways or ()), *_undecided_parents(request)] or [gateway_object_name(None)]
    ready = seen is not None and seen.ready and _routes_to(before, backends)
    return Desired(Local(http_route(plan, names, rewrite, backends, joined=joined), ReadyWhen.ROUTED), ready)


def _backends_of_before(static: StaticRoute, before: ObservedRoute) -> list[Manifest]:
    """Of what serves, what the observed route has: with or without filters, as the backends beside them are."""
    return [before.backends[each.name] for each in static.endpoints if each.name in before.backends]


def _parents(request: ComposeRequest[ModelService], gateways: Sequence[InferenceGateway]) -> list[str]:
    """Those that have an address or are parents already, else all."""
    observed, names = observed_parents(request), {gateway_object_name(each): each for each in gateways}
    chosen = [name for name, each in names.items() if each.status.address is not None or name in observed]
    return chosen or list(names)


def _undecided_parents(request: ComposeRequest[ModelService]) -> list[str]:
    """Gateways of the observed routes stay while it is not known whether they serve, or whose they are."""
    known = {gateway_object_name(each) for each in serving_gateways(request) or ()}
    observed = observed_parents(request) - known
    if unreadable_gateways(request):
        return sorted(observed)
    return sorted(observed & set(map(object_name_of, undecided_gateways(request))))


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
    undecided = gateways is None or undecided_gateways(request)
    if before and (request.fetched(_ENDPOINTS) is None or undecided or doubted):
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
    if policy is not None and (gateways is None or undecided_gateways(request)):
        return {**routes, _ENDPOINT_POLICY: keep(policy)}
    if not routes and not any(composes_router(each, embedded=request.embedded) for each in gateways or ()):
        return {}
    known = routes if policy is not None else {key: each for key, each in routes.items() if key in request.observed}
    return {**known, _ENDPOINT_POLICY: _seen(request, _ENDPOINT_POLICY, endpoint_policy(plan))}


def _routes_to(before: ObservedRoute, backends: Sequence[Manifest]) -> bool:
    """Whether the observed route has one of these as a backend; one without answers 503."""
    return not backends or any(name_of_backend(backend) in before.backends for backend in backends)


def _address(request: ComposeRequest[ModelService], gateways: Sequence[InferenceGateway] | None) -> str | None:
    gateway = next((each for each in gateways or () if each.status.address is not None), None)
    return request.resource.status.address if gateway is None else _address_at(request, gateway)


def _address_at(request: ComposeRequest[ModelService], gateway: InferenceGateway) -> str:
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
    remote: Mapping[str, RemoteGateway],
) -> Condition:
    kind, address = ConditionType.ROUTE_READY, _address(request, gateways)
    missing = _without_gateway(request, gateways)
    if missing is not None:
        return missing
    serving = [each for each in gateways or () if each.status.address is not None]
    pending = [_pending(request, route, remote.get(each.metadata.name), plan) for each in serving]
    waits = next((why for why in pending or [_pending(request, route, None, plan)] if why), None)
    if waits is not None:
        return fails(kind, Reason.ROUTE_PENDING, waits)
    return holds(kind, Reason.ROUTE_CONFIGURED, f"{address}{_limits(request, plan, gateways or ())}")


def _pending(
    request: ComposeRequest[ModelService], route: Desired, at: RemoteGateway | None, plan: ServicePlan
) -> str | None:
    """Why the route of a gateway is not in force; `at` is None for one beside the control plane."""
    if at is None and route.ready:
        return None
    seen = request.observed.get(_ROUTE) if at is None else at.route
    if at is not None and at.accepts and seen is not None and _leads_somewhere(seen, plan):
        return None
    who = "the gateway" if at is None else f"InferenceGateway {at.name} on {at.cluster}"
    problem = route_problem(seen.manifest) if seen else None
    refused = f"{who} refuses the route: {seen.refused}" if seen is not None and seen.refused else ""
    return refused or (f"{who} reports {problem}" if problem else f"{who} has not accepted the route yet")


def _leads_somewhere(route: Observed, plan: ServicePlan) -> bool:
    return not plan.serving or bool(read_route(route.manifest).backends)


def _without_gateway(
    request: ComposeRequest[ModelService], gateways: Sequence[InferenceGateway] | None
) -> Condition | None:
    kind = ConditionType.ROUTE_READY
    if request.resource.status.address is not None and not gateways:
        return None
    if gateways is None:
        return unknown(kind, Reason.UNRESOLVED, "the gateways are not read yet")
    if not gateways:
        found, unreadable = listed_gateways(request) or (), unreadable_gateways(request)
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
