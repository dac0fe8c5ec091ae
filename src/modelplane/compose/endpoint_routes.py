"""The routes by which a gateway sends a request to the endpoint that the fleet router chose.

One for each endpoint of a service: it matches the header that the router sets and a path that no client can use
without it, takes that path off again, puts the endpoint's prefix in the place of /v1, and gives the request what the
endpoint needs of the gateway: its host, its credential and the header of its replica. The router holds no secret.

Each endpoint has a route of its own. Envoy Gateway names clusters by a rule's place in its route: were endpoints to
share one, a new endpoint would move others to clusters that Envoy knows as somebody else's for a moment.
"""

from collections.abc import Sequence

from modelplane.api.labels import FLEET_GATEWAY, REPLICA_HEADER, ROUTER, SYSTEM_NAMESPACE
from modelplane.api.names import MAX_LABEL, make_name
from modelplane.api.objects import Manifest, manifest, mapping_at
from modelplane.compose.object_names import ObjectNames, local_names
from modelplane.compose.observed_route import LEAVING_REASON
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan

ENDPOINT_HEADER = "x-modelplane-endpoint"
RESIDENCY_HEADER = "x-modelplane-residency"
"""From clients: where a request may be served. Only the router can hold it, so static routes refuse what has it."""
ROUTER_LABEL = ROUTER
"""On what the fleet router needs."""
SERVICE_LABEL = "modelplane.ai/service"
"""On the routes of a service's endpoints, so that its policy finds them."""
ENDPOINT_PATHS = "/_endpoints"
"""No namespace begins with an underscore, so no service's path does."""
_VERSION = "/v1"
_GATEWAY_API = "gateway.networking.k8s.io/v1"
_ENVOY_GATEWAY = "gateway.envoyproxy.io"


def endpoint_path(plan: ServicePlan, endpoint: PlanEndpoint) -> str:
    """The path of one endpoint of a service."""
    return f"{ENDPOINT_PATHS}/{plan.key}/{endpoint.name}"


def endpoint_routes(
    plan: ServicePlan, gateways: Sequence[str] = (FLEET_GATEWAY,), names: ObjectNames | None = None
) -> dict[str, Manifest]:
    """The HTTPRoutes of a service's endpoints that can answer, by endpoint, for the Gateways of these names.

    One that leaves keeps its route: a router may have the plans of before.
    """
    parents = [{"name": name, "namespace": SYSTEM_NAMESPACE} for name in gateways]
    named = names or local_names(plan)
    return {
        endpoint.name: _route(named, endpoint, {"parentRefs": parents, "rules": [_rule(plan, endpoint, named)]})
        for endpoint in plan.endpoints
        if is_routed(endpoint)
    }


def is_routed(endpoint: PlanEndpoint) -> bool:
    """Whether it has a route, and so a Backend."""
    return endpoint.serves or endpoint.reason == LEAVING_REASON


def _route(names: ObjectNames, endpoint: PlanEndpoint, spec: Manifest) -> Manifest:
    name = make_name(f"{names.service}-{endpoint.name}", names.service, endpoint.name)
    made = manifest(_GATEWAY_API, "HTTPRoute", name, namespace=names.namespace, spec=spec)
    return {**made, "metadata": {**mapping_at(made, "metadata"), "labels": route_labels(names)}}


def route_labels(names: ObjectNames) -> dict[str, str]:
    """On the routes of a service's endpoints, and on no other's."""
    return {ROUTER_LABEL: FLEET_GATEWAY, SERVICE_LABEL: make_name(names.service, names.service, limit=MAX_LABEL)}


def labelled(route: Manifest) -> Manifest:
    """Marked as a route of the router's, which a gateway without one has no use for."""
    return {**route, "metadata": {**mapping_at(route, "metadata"), "labels": {ROUTER_LABEL: FLEET_GATEWAY}}}


def _rule(plan: ServicePlan, endpoint: PlanEndpoint, names: ObjectNames) -> Manifest:
    # Where /v1 stays, what is beside it is reached, too.
    below, replaced = ("", "/") if endpoint.prefix == _VERSION else (_VERSION, endpoint.prefix or "/")
    path = {"type": "PathPrefix", "value": f"{endpoint_path(plan, endpoint)}{below}"}
    header = {"type": "Exact", "name": ENDPOINT_HEADER, "value": endpoint.key}
    rewrite: dict[str, object] = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": replaced}}
    if endpoint.host is not None and endpoint.is_named:
        rewrite["hostname"] = endpoint.address
    return {
        "matches": [{"path": path, "headers": [header]}],
        "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
        "backendRefs": [_backend(endpoint, names.backend(endpoint))],
        "timeouts": {"request": f"{plan.timeouts.request_s:.0f}s"},
    }


def _backend(endpoint: PlanEndpoint, name: str) -> Manifest:
    filters: list[Manifest] = [_headers(endpoint)]
    if endpoint.credential is not None:
        added = {"group": _ENVOY_GATEWAY, "kind": "HTTPRouteFilter", "name": name}
        filters.append({"type": "ExtensionRef", "extensionRef": added})
    return {"group": _ENVOY_GATEWAY, "kind": "Backend", "name": name, "weight": 1, "filters": filters}


def _headers(endpoint: PlanEndpoint) -> Manifest:
    """The gateway's own headers end here; a replica's cluster is told which replica is meant."""
    change: dict[str, object] = {"remove": [ENDPOINT_HEADER]}
    if endpoint.replica is not None:
        change["set"] = [{"name": REPLICA_HEADER, "value": endpoint.replica}]
    else:
        change["remove"] = [ENDPOINT_HEADER, REPLICA_HEADER, "x-modelplane-caller"]
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": change}
