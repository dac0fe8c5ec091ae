"""The fleet router of an InferenceGateway on Kubernetes: its objects, with the plans of the services that it serves.

The plans are made from all ModelServices and ModelEndpoints, since a cluster-scoped object may compose into the
system's namespace and a ModelService may not. Until both are read, the plans of before stay.
"""

from collections import defaultdict
from collections.abc import Iterable

from modelplane.api.labels import selects
from modelplane.api.models import GatewayRouter, InferenceGateway
from modelplane.api.objects import API_VERSION, Manifest, namespace_of, text_at
from modelplane.compose.caller_document import CallerDocument, gateway_callers
from modelplane.compose.callers import CallerSecrets
from modelplane.compose.contract import ComposeRequest, Desired, Local, Requirement, keep
from modelplane.compose.fleet_gateways import composes_router, gateway_object_name, runs_on
from modelplane.compose.gateway_cluster import cluster_image
from modelplane.compose.gateway_identity import hop_secret
from modelplane.compose.gateway_tracing import router_environment
from modelplane.compose.namespace_plans import namespace_plans
from modelplane.compose.router_objects import (
    MAP_BYTES,
    OBJECT_MAP_BYTES,
    PLANS,
    RouterSite,
    plan_map_name,
    plan_maps,
    read_plan_map,
    running_objects,
)
from modelplane.compose.service_plan import ServicePlan

_SERVICES, _ENDPOINTS, _CLUSTERS = "services", "endpoints", "clusters"


def router_requirements(request: ComposeRequest[InferenceGateway]) -> dict[str, Requirement]:
    """All services and endpoints, where it has a router that is made of objects."""
    gateway = request.resource
    if not composes_router(gateway, embedded=request.embedded):
        return {}
    clusters = {_CLUSTERS: Requirement(API_VERSION, "InferenceCluster")} if gateway.spec.mutual_tls is not None else {}
    return {
        _SERVICES: Requirement(API_VERSION, "ModelService"),
        _ENDPOINTS: Requirement(API_VERSION, "ModelEndpoint"),
        **clusters,
    }


def router_desired(request: ComposeRequest[InferenceGateway], callers: CallerSecrets | None) -> dict[str, Desired]:
    """The router's objects by key. `callers` is None without keys, and until they are read."""
    gateway = request.resource
    if not composes_router(gateway, embedded=request.embedded):
        return {}
    wanted = gateway.spec.router or GatewayRouter()
    known = gateway_callers(gateway, (each.identity for each in callers.callers) if callers is not None else ())
    site = RouterSite(
        gateway_object_name(gateway),
        wanted.image or cluster_image(request, request.images.of("router")),
        wanted.replicas,
        required=restricts_callers(gateway),
        hop_secret=hop_secret(request),
        cluster_authorities=_cluster_authorities(request),
        environment=router_environment(gateway),
        map_bytes=OBJECT_MAP_BYTES if runs_on(gateway, embedded=request.embedded) is not None else MAP_BYTES,
    )
    maps = _maps(request, site, known, are_known=callers is not None or gateway.spec.auth is None)
    running = running_objects(site, [plan_map_name(site, key) for key in maps])
    return {**maps, **{key: _desired(request, key, item) for key, item in running.items()}}


def _cluster_authorities(request: ComposeRequest[InferenceGateway]) -> str:
    found = (text_at(item, "status", "gateway", "caCertificate") for item in request.fetched(_CLUSTERS) or ())
    return "\n".join(sorted({authority for authority in found if authority}))


def restricts_callers(gateway: InferenceGateway) -> bool:
    """By what is written, whether or not the keys are read: it must not change when a Secret does."""
    names = [each.name for each in gateway.spec.auth.callers] if gateway.spec.auth is not None else []
    return gateway_callers(gateway, names).restricts


def _maps(
    request: ComposeRequest[InferenceGateway], site: RouterSite, callers: CallerDocument, *, are_known: bool
) -> dict[str, Desired]:
    services, endpoints = request.fetched(_SERVICES), request.fetched(_ENDPOINTS)
    before = {key: seen for key, seen in request.observed.items() if key.startswith(PLANS)}
    unread = request.resource.spec.mutual_tls is not None and request.fetched(_CLUSTERS) is None
    if before and (services is None or endpoints is None or not are_known or unread):
        return {key: keep(seen) for key, seen in before.items()}
    known = [plan for seen in before.values() for plan in read_plan_map(seen.manifest)]
    plans = _plans(request.resource, services or (), endpoints or (), known)
    return {key: _desired(request, key, item) for key, item in plan_maps(site, plans, callers).items()}


def _plans(
    gateway: InferenceGateway, services: Iterable[Manifest], endpoints: Iterable[Manifest], known: Iterable[ServicePlan]
) -> list[ServicePlan]:
    declared, listed = _by_namespace(services), _by_namespace(endpoints)
    serving: dict[str, set[str]] = defaultdict(set)
    for plan in known:
        serving[plan.namespace].update(endpoint.name for endpoint in plan.endpoints if endpoint.ready)
    found = (
        plan
        for namespace in sorted(declared)
        for plan in namespace_plans(declared[namespace], listed[namespace], serving[namespace])
    )
    return [plan for plan in found if selects(gateway.spec.service_selector, plan.labels)]


def _by_namespace(items: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = defaultdict(list)
    for item in items:
        found[namespace_of(item)].append(item)
    return found


def _desired(request: ComposeRequest[InferenceGateway], key: str, item: Manifest) -> Desired:
    return Desired(Local(item), ready=key in request.observed)
