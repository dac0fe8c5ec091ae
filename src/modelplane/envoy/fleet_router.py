"""How a gateway calls the fleet router: two hops in one Envoy, so that a retry is a new decision.

    client -> listener of the gateway -> (retries) -> inner listener -> router's ext_proc -> route -> endpoint

The outer hop has one route, to the inner listener, and a retry policy: a response that says that no engine received the
request is tried again. Each try passes the router, which sees the number of the attempt and chooses another endpoint,
whatever host, path, model or credential that one needs. Envoy's own retries stay inside one cluster and cannot.

The router sets a header and a path that only it can use, and the inner listener has a route for each endpoint by them:
to the gateway of a replica's cluster, or to the listener for providers. It is called with the body buffered and fails
open: when it is away, or silent for longer than `_PATIENCE`, the request goes on by the routes of the static plan.
"""

from collections.abc import Iterator

from modelplane.api.labels import REPLICA_HEADER
from modelplane.compose.endpoint_routes import ENDPOINT_HEADER, endpoint_path
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan
from modelplane.envoy.callers import caller_keys, health_route
from modelplane.envoy.clusters import cluster
from modelplane.envoy.ext_proc import HTTP2
from modelplane.envoy.hop_tls import with_hop_tls
from modelplane.envoy.pools import EnvoyCluster, PoolMember
from modelplane.envoy.retries import BODY_BYTES, NO_RETRIES, UNSERVED_HEADER
from modelplane.envoy.service_pools import is_gateway, provider_socket, routing_key
from modelplane.envoy.view import GatewayView, Resource, RouterAddress

ROUTER_FILTER = "modelplane.router"
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_PATIENCE = "1s"
_MOST_TRIES = 4
_BEHIND_THE_DOOR = (ENDPOINT_HEADER, REPLICA_HEADER, "x-gateway-destination-endpoint")
"""Headers that only gateways set. A client's own are removed."""
_INTERNAL_HEADERS = (ENDPOINT_HEADER, "x-envoy-attempt-count", "x-envoy-external-address")
"""Headers of the hops that no endpoint gets."""

ROUTER_ANSWERS: Resource = {
    "filter": {
        "extension_filter": {
            "name": "router-answer",
            "typed_config": {
                "@type": f"{_EXTENSIONS}.access_loggers.filters.cel.v3.ExpressionFilter",
                "expression": "response.code_details.contains('modelplane_router')",
            },
        }
    },
    "body_format_override": {
        "text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"},
        "content_type": "application/json",
    },
}
"""The router's own answers are whole: a status and an error in the shape of the client's API."""


def door_name(gateway: str) -> str:
    """The virtual host of the outer hop."""
    return f"{gateway}.door"


def inner_name(gateway: str) -> str:
    """The inner listener."""
    return f"{gateway}.router"


def inner_address(gateway: str) -> Resource:
    """In Envoy's own folder, where nobody else can open it."""
    return {"pipe": {"path": f"{gateway}.sock", "mode": 0o600}}


def hop_cluster(gateway: str) -> Resource:
    """The way from the outer hop to the inner listener."""
    name = f"{gateway}/door"
    limits = {"max_connections": 65_536, "max_pending_requests": 65_536, "max_requests": 65_536}
    budget = {"budget_percent": {"value": 20.0}, "min_retry_concurrency": 256}
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [{**limits, "retry_budget": budget}]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": inner_address(gateway)}}]}],
        },
    }


def router_cluster(gateway: str, router: RouterAddress) -> Resource:
    name = f"{gateway}/router"
    address = {"socket_address": {"address": router.host, "port_value": router.port}}
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "0.250s",
        "circuit_breakers": {"thresholds": [{"max_requests": 65_536, "max_pending_requests": 65_536}]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "typed_extension_protocol_options": HTTP2,
    }


def router_clusters(view: GatewayView) -> dict[str, Resource]:
    """The clusters of a gateway with a router: the hop, the router, and the next hop of each endpoint."""
    if view.router is None:
        return {}
    pools = {_next_hop(view.name, endpoint) for _, endpoint in _serving(view)}
    next_hops = (with_hop_tls(cluster(pool), view.hop) for pool in pools)
    found = (hop_cluster(view.name), router_cluster(view.name, view.router), *next_hops)
    return {str(each["name"]): each for each in found}


def endpoint_entries(view: GatewayView) -> list[Resource]:
    """The routes to single endpoints, in no order that matters: no two match one request."""
    if view.router is None:
        return []
    return [_entry(view.name, plan, endpoint) for plan, endpoint in _serving(view)]


def _serving(view: GatewayView) -> Iterator[tuple[ServicePlan, PlanEndpoint]]:
    return ((plan, endpoint) for plan in view.plans or () for endpoint in plan.endpoints if endpoint.serves)


def _next_hop(gateway: str, endpoint: PlanEndpoint) -> EnvoyCluster:
    """The gateway of a replica's cluster, or the listener for providers."""
    host, port = (endpoint.address, endpoint.port) if is_gateway(endpoint) else (provider_socket(gateway), 0)
    return EnvoyCluster(f"{gateway}/next/{host}:{port}", (PoolMember(host, port),))


def _entry(gateway: str, plan: ServicePlan, endpoint: PlanEndpoint) -> Resource:
    named = {"name": ENDPOINT_HEADER, "string_match": {"exact": endpoint.key}}
    replica = {"header": {"key": REPLICA_HEADER, "value": routing_key(endpoint)}}
    return {
        "match": {"prefix": f"{endpoint_path(plan, endpoint)}/", "headers": [named]},
        "route": {
            "cluster": _next_hop(gateway, endpoint).name,
            "prefix_rewrite": "/",
            "timeout": f"{plan.timeouts.request_s:.3f}s",
            "retry_policy": NO_RETRIES,
        },
        "request_headers_to_add": [{**replica, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}],
        "request_headers_to_remove": list(_INTERNAL_HEADERS),
    }


def door_host(view: GatewayView) -> Resource:
    """The virtual host of the outer hop: one route, with retries, and the one for load balancers."""
    retries = {
        "retry_on": "connect-failure,refused-stream,reset-before-request,retriable-headers",
        "retriable_headers": [{"name": UNSERVED_HEADER, "present_match": True}],
        "num_retries": _MOST_TRIES - 1,
        "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.050s"},
    }
    return {
        "name": door_name(view.name),
        "domains": [door_name(view.name)],
        "include_request_attempt_count": True,
        "request_headers_to_remove": list(_BEHIND_THE_DOOR),
        "response_headers_to_remove": [UNSERVED_HEADER],
        "request_body_buffer_limit": BODY_BYTES,
        **caller_keys(view.callers),
        "routes": [
            health_route(),
            {
                "match": {"prefix": "/"},
                "route": {"cluster": f"{view.name}/door", "timeout": "0s", "retry_policy": retries},
            },
        ],
    }


def router_rule(view: GatewayView) -> Resource:
    """What the inner hop's virtual host says of a router that must answer: without it nobody is served.

    It is in the table of routes, as keys are: what a listener says holds until its connections are drained.
    """
    if view.router is None or not view.router.required:
        return {}
    closed = {"@type": f"{_EXTENSIONS}.filters.http.ext_proc.v3.ExtProcPerRoute"}
    return {"typed_per_filter_config": {ROUTER_FILTER: {**closed, "overrides": {"failure_mode_allow": False}}}}


def unless_routed(each: Resource) -> Resource:
    """A filter of the inner listener that is for the static plan only, as that reads the body, which takes time.

    What the router sent on has its header by the time that filters behind it see the request.
    """
    has_endpoint = {
        "single_predicate": {
            "input": {
                "name": "endpoint",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
                    "header_name": ENDPOINT_HEADER,
                },
            },
            "value_match": {"contains": "/"},
        }
    }
    skip = {
        "name": "skip",
        "typed_config": {"@type": f"{_EXTENSIONS}.filters.common.matcher.action.v3.SkipFilter"},
    }
    return {
        "name": each["name"],
        "typed_config": {
            "@type": f"{_EXTENSIONS}.common.matching.v3.ExtensionWithMatcher",
            "extension_config": each,
            "xds_matcher": {"matcher_list": {"matchers": [{"predicate": has_endpoint, "on_match": {"action": skip}}]}},
        },
    }


def router_filter(gateway: str) -> Resource:
    """The ext_proc filter of the inner listener."""
    mode = {
        "request_header_mode": "SEND",
        "request_body_mode": "BUFFERED",
        "request_trailer_mode": "SKIP",
        "response_header_mode": "SEND",
        "response_body_mode": "NONE",
        "response_trailer_mode": "SEND",
    }
    return {
        "name": ROUTER_FILTER,
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": f"{gateway}/router"}},
            "failure_mode_allow": True,
            "status_on_error": {"code": "ServiceUnavailable"},
            "message_timeout": _PATIENCE,
            "allow_mode_override": True,
            # The time that is left for a further attempt is a header of Envoy's own.
            "mutation_rules": {"allow_envoy": True},
            "processing_mode": mode,
        },
    }
