"""The objects of Envoy Gateway for a service's plan: an HTTPRoute and a BackendTrafficPolicy.

What they can say is less than the plan. Backends without filters become one cluster of Envoy, where a request is tried
again at an endpoint that was not tried. So replicas of different clusters differ by nothing: all get the list of them
in one header of the rule, and each cluster's gateway finds its own in it (`StaticRoute.joined`). Other backends, such
as providers and two replicas behind one gateway, have filters and become clusters of their own: a request is tried
again at the endpoint it was sent to. No endpoint is ejected, and tiers change when the control plane sees that an
endpoint stopped. A rule rewrites all its paths alike, so endpoints that share a tier must share the path that takes the
place of /v1; those with most of the weight do, and `StaticRoute.left_out` has the others. With the fleet router, which
has a route for each endpoint, only the first holds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from modelplane.api.labels import REPLICA_HEADER, SYSTEM_NAMESPACE
from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, manifest
from modelplane.compose.endpoint_routes import RESIDENCY_HEADER, route_labels
from modelplane.compose.endpoint_target import DEFAULT_PREFIX
from modelplane.compose.object_names import ObjectNames, local_names
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan

ENVOY_GATEWAY = "gateway.envoyproxy.io"
MOST_BACKENDS = 16
"""What a rule of an HTTPRoute takes."""
CALLER_HEADER = "x-modelplane-caller"
_INTERNAL = (REPLICA_HEADER, CALLER_HEADER)
_RETRY_CODES = (429, 502, 503, 504)
_RETRY_AFTER_S = "2"
_LONGEST_VALUE = 4096
_ROUTES = "gateway.networking.k8s.io"
_BACK_OFF: Manifest = {"backOff": {"baseInterval": "25ms", "maxInterval": "50ms"}}


@dataclass(frozen=True, slots=True)
class StaticRoute:
    """What one rule can serve: the endpoints of the first tier that share a path."""

    prefix: str = DEFAULT_PREFIX
    endpoints: tuple[PlanEndpoint, ...] = ()
    left_out: tuple[PlanEndpoint, ...] = ()

    @property
    def joined(self) -> tuple[str, ...]:
        """The replicas that one cluster of Envoy can have: one behind each gateway. Empty: each is a cluster.

        Envoy keeps one of several endpoints at one address, and a cluster has either addresses or names.
        """
        places = {(each.address, each.port) for each in self.endpoints}
        kinds = {each.is_named for each in self.endpoints}
        alike = all(each.listed and _filters(each, "") == [_header(each)] for each in self.endpoints)
        fits = alike and len(places) == len(self.endpoints) > 1 == len(kinds)
        replicas = tuple(str(each.replica) for each in self.endpoints)
        return replicas if fits and len(",".join(replicas)) <= _LONGEST_VALUE else ()


def static_route(plan: ServicePlan) -> StaticRoute:
    serving = plan.serving[0].serving if plan.serving else ()
    weights = Counter[str]()
    for endpoint in serving:
        weights[endpoint.prefix] += endpoint.weight
    prefix = max(weights, key=lambda each: (weights[each], each == DEFAULT_PREFIX), default=DEFAULT_PREFIX)
    fitting = sorted((each for each in serving if each.prefix == prefix), key=lambda each: (-each.weight, each.key))
    used = sorted(fitting[:MOST_BACKENDS], key=lambda each: each.key)
    return StaticRoute(prefix, tuple(used), tuple(each for each in serving if each not in used))


def http_route(
    plan: ServicePlan,
    gateways: Iterable[str],
    rewrite: Manifest,
    backends: Sequence[Manifest],
    names: ObjectNames | None = None,
    *,
    joined: Sequence[str] = (),
) -> Manifest:
    """With a rule that refuses what says where it may be served: only a router can hold that.

    `joined` are the replicas that all its backends get in one header.
    """
    named = names or local_names(plan)
    below = "" if rewrite == root_rewrite() else DEFAULT_PREFIX
    path = {"type": "PathPrefix", "value": f"/{plan.key}{below}"}
    unserved = {"type": "ExtensionRef", "extensionRef": _extension(unserved_name(named))}
    stays = {"type": "RegularExpression", "name": RESIDENCY_HEADER, "value": ".*"}
    refusal = {"matches": [{"path": path, "headers": [stays]}], "filters": [unserved]}
    rule = {
        "matches": [{"path": path}],
        "filters": [
            {"type": "URLRewrite", "urlRewrite": rewrite},
            *([_set_replica(",".join(joined))] if joined else []),
        ],
        "backendRefs": list(backends),
        "timeouts": {"request": f"{plan.timeouts.request_s:.0f}s"},
    }
    if not backends:
        # Without backends and without this the gateway answers 500, which says that somebody failed.
        rule = {"matches": [{"path": path}], "filters": [unserved]}
    parents = [{"name": name, "namespace": SYSTEM_NAMESPACE} for name in gateways]
    return manifest(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        named.service,
        namespace=named.namespace,
        spec={"parentRefs": parents, "rules": [rule, refusal]},
    )


def unserved_name(names: ObjectNames) -> str:
    return make_name(names.service, names.service, "unserved")


def unserved_filter(plan: ServicePlan, names: ObjectNames | None = None) -> Manifest:
    """What clients get while nothing is ready: 503, and when to come again."""
    named = names or local_names(plan)
    response = unavailable(f"No endpoint of {plan.key} is ready to answer.")
    return manifest(
        f"{ENVOY_GATEWAY}/v1alpha1",
        "HTTPRouteFilter",
        unserved_name(named),
        namespace=named.namespace,
        spec={"directResponse": response},
    )


def unavailable(sentence: str) -> Manifest:
    """A direct response in the error format of OpenAI's API."""
    error = {"message": sentence, "type": "server_error", "param": None, "code": "service_unavailable"}
    return {
        "statusCode": 503,
        "contentType": "application/json",
        "body": {"type": "Inline", "inline": msgspec.json.encode({"error": error}).decode()},
        "header": {"set": [{"name": "retry-after", "value": _RETRY_AFTER_S}]},
    }


def _extension(name: str) -> Manifest:
    return {"group": ENVOY_GATEWAY, "kind": "HTTPRouteFilter", "name": name}


def root_rewrite() -> Manifest:
    return {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}


def path_rewrite(route: StaticRoute) -> Manifest:
    """What takes the place of the service's own path: all of it where /v1 stays, else with /v1."""
    if route.prefix == DEFAULT_PREFIX:
        return root_rewrite()
    return {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": route.prefix or "/"}}


def backend_refs(route: StaticRoute, names: ObjectNames) -> list[Manifest]:
    """Without filters where the route is joined: a single one would part them."""
    return [_backend_ref(each, names.backend(each), joined=bool(route.joined)) for each in route.endpoints]


def _backend_ref(endpoint: PlanEndpoint, name: str, *, joined: bool) -> Manifest:
    found = {"group": ENVOY_GATEWAY, "kind": "Backend", "name": name, "weight": endpoint.weight}
    return found if joined else {**found, "filters": _filters(endpoint, name)}


def _filters(endpoint: PlanEndpoint, name: str) -> list[Manifest]:
    filters = [_header(endpoint)]
    if endpoint.host is not None and endpoint.is_named:
        filters.append({"type": "URLRewrite", "urlRewrite": {"hostname": endpoint.address}})
    if endpoint.credential is not None:
        filters.append({"type": "ExtensionRef", "extensionRef": _extension(name)})
    return filters


def _header(endpoint: PlanEndpoint) -> Manifest:
    """Sets the header of a replica, and removes it elsewhere: a client's own would choose a replica of any tenant."""
    if endpoint.replica is not None:
        return _set_replica(endpoint.replica)
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": list(_INTERNAL)}}


def _set_replica(value: str) -> Manifest:
    change = {"set": [{"name": REPLICA_HEADER, "value": value}]}
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": change}


def traffic_policy(plan: ServicePlan, names: ObjectNames | None = None) -> Manifest:
    """Retries, limits and deadlines of the service, as the embedded Envoy has them.

    Nothing is ejected. A Backend is a cluster of one address, which Envoy would eject, too: its share of the requests
    would be refused for as long as that lasts, whether or not it answers again, and go nowhere else.
    """
    retry = {
        "numRetries": 3,
        "numAttemptsPerPriority": 1,
        "retryOn": {
            # Codes are inert without this trigger.
            "triggers": ["connect-failure", "refused-stream", "reset", "retriable-status-codes"],
            "httpStatusCodes": list(_RETRY_CODES),
        },
        "perRetry": dict(_BACK_OFF),
    }
    named = names or local_names(plan)
    target = {"targetRefs": [{"group": _ROUTES, "kind": "HTTPRoute", "name": named.service}]}
    return _traffic_policy(plan, named.namespace, named.service, {**target, "retry": retry})


def endpoint_policy(plan: ServicePlan, names: ObjectNames | None = None) -> Manifest:
    """For the routes of single endpoints. What an endpoint said is the router's to judge, so it is not tried again.

    It finds the routes by their labels, so it is there before them: a cluster that Envoy Gateway changes right after it
    was made answers nothing for 15 s, since Envoy waits for addresses that it is not sent again.
    """
    named = names or local_names(plan)
    selector = {"group": _ROUTES, "kind": "HTTPRoute", "matchLabels": route_labels(named)}
    retry = {
        "numRetries": 1,
        "retryOn": {"triggers": ["connect-failure", "refused-stream"]},
        "perRetry": dict(_BACK_OFF),
    }
    name = make_name(named.service, named.service, "endpoints")
    return _traffic_policy(plan, named.namespace, name, {"targetSelectors": [selector], "retry": retry})


def _traffic_policy(plan: ServicePlan, namespace: str, name: str, own: Manifest) -> Manifest:
    spec = {
        **own,
        "loadBalancer": {"type": "LeastRequest"},
        "timeout": {"http": _timeouts(plan)},
        # Without it Envoy Gateway allows 1,024 requests at a time.
        "circuitBreaker": {
            "maxConnections": 65_536,
            "maxPendingRequests": 65_536,
            "maxParallelRequests": 65_536,
            "retryBudget": {
                "percent": {"numerator": plan.retries.budget_percent},
                "minRetryConcurrency": plan.retries.min_concurrency,
            },
        },
    }
    return manifest(f"{ENVOY_GATEWAY}/v1alpha1", "BackendTrafficPolicy", name, namespace=namespace, spec=spec)


def _timeouts(plan: ServicePlan) -> Manifest:
    return {
        "requestTimeout": f"{plan.timeouts.request_s:.0f}s",
        "streamIdleTimeout": f"{plan.timeouts.idle_s:.0f}s",
    }
