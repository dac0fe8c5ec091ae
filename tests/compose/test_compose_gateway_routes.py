"""The objects of Envoy Gateway for a plan; and the embedded Envoy, which is programmed from the same plan, agrees."""

import json
import re
from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelReplica
from modelplane.compose.context import listed_header
from modelplane.compose.endpoint_routes import endpoint_routes
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.gateway_routes import (
    MOST_BACKENDS,
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
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, PlanTimeouts, ServicePlan
from modelplane.envoy.clusters import cluster
from modelplane.envoy.retries import service_retries
from modelplane.envoy.service_pools import service_pool
from modelplane.envoy.service_routes import front_routes, provider_routes


def replica(name, weight=1, address="192.0.2.1", *, listed=True, **fields):
    made = PlanEndpoint(f"team/{name}", "main", weight, False, address, 80, None, cluster="c", **fields)
    return replace(made, replica=f"team/{name}", listed=listed)


def provider(name, weight=1, **fields):
    host = f"api.{name}.example"
    credential = CredentialRef("keys", name)
    return PlanEndpoint(f"team/{name}", "hosted", weight, True, host, 443, host, credential=credential, **fields)


def plan(*tiers, **fields):
    return ServicePlan("team", "chat", tiers=tuple(PlanTier(n, tuple(t)) for n, t in enumerate(tiers)), **fields)


UNSERVED = {
    "type": "ExtensionRef",
    "extensionRef": {
        "group": "gateway.envoyproxy.io",
        "kind": "HTTPRouteFilter",
        "name": unserved_filter(plan())["metadata"]["name"],
    },
}
SPILLOVER = plan([replica("us", 7), replica("eu", 2), provider("acme", 1)], [provider("last")])


def route_of(made):
    static = static_route(made)
    backends = backend_refs(static, local_names(made))
    return http_route(made, ["modelplane"], path_rewrite(static), backends, joined=static.joined)


def test_the_whole_route_of_a_service_with_a_provider_beside_replicas():
    def backend(name, weight, *filters):
        return {
            "group": "gateway.envoyproxy.io",
            "kind": "Backend",
            "name": name,
            "weight": weight,
            "filters": list(filters),
        }

    def header(**change):
        return {"type": "RequestHeaderModifier", "requestHeaderModifier": change}

    added = {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": "acme"}
    assert route_of(SPILLOVER)["spec"] == {
        "parentRefs": [{"name": "modelplane", "namespace": "modelplane-system"}],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/team/chat"}}],
                "filters": [
                    {
                        "type": "URLRewrite",
                        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
                    }
                ],
                "backendRefs": [
                    backend(
                        "acme",
                        1,
                        header(remove=["modelplane-replica", "x-modelplane-caller"]),
                        {"type": "URLRewrite", "urlRewrite": {"hostname": "api.acme.example"}},
                        {"type": "ExtensionRef", "extensionRef": added},
                    ),
                    backend("eu", 2, header(set=[{"name": "modelplane-replica", "value": "team/eu"}])),
                    backend("us", 7, header(set=[{"name": "modelplane-replica", "value": "team/us"}])),
                ],
                "timeouts": {"request": "300s"},
            },
            {
                "matches": [
                    {
                        "path": {"type": "PathPrefix", "value": "/team/chat"},
                        "headers": [{"type": "RegularExpression", "name": "x-modelplane-residency", "value": ".*"}],
                    }
                ],
                "filters": [UNSERVED],
            },
        ],
    }


def test_replicas_of_different_clusters_are_one_cluster_of_envoy_where_a_try_goes_elsewhere():
    """Envoy Gateway joins backends without filters, and gives every try of a request the same headers."""
    rule, _ = route_of(plan([replica("us", 7), replica("eu", 2, "192.0.2.2")]))["spec"]["rules"]
    backend = {"group": "gateway.envoyproxy.io", "kind": "Backend"}
    assert rule["backendRefs"] == [{**backend, "name": "eu", "weight": 2}, {**backend, "name": "us", "weight": 7}]
    listed = {"set": [{"name": "modelplane-replica", "value": "team/eu,team/us"}]}
    assert rule["filters"][1:] == [{"type": "RequestHeaderModifier", "requestHeaderModifier": listed}]


@pytest.mark.parametrize(
    ("endpoints", "joined"),
    [
        pytest.param([replica("a"), replica("b", 1, "192.0.2.2")], ("team/a", "team/b"), id="one a gateway"),
        pytest.param([replica("a"), replica("b")], (), id="two behind one gateway: Envoy would keep one"),
        pytest.param([replica("a"), provider("acme")], (), id="a provider, which needs its host and credential"),
        pytest.param([replica("a"), replica("b", 1, "gateway.example")], (), id="an address and a name"),
        pytest.param(
            [replica("a", 1, "one.example"), replica("b", 1, "two.example")], ("team/a", "team/b"), id="names"
        ),
        pytest.param(
            [replica("a"), replica("b", 1, "192.0.2.2", listed=False)],
            (),
            id="a route of an earlier release",
        ),
        pytest.param([replica("a")], (), id="nobody else"),
        pytest.param([], (), id="nobody"),
        pytest.param(
            [replica("a" * 2043, 1, "a"), replica("b" * 2042, 1, "b")],
            (f"team/{'a' * 2043}", f"team/{'b' * 2042}"),
            id="as long as a header may be",
        ),
        pytest.param([replica(letter * 2043, 1, letter) for letter in "ab"], (), id="too long for a header"),
    ],
)
def test_which_replicas_share_a_cluster_of_envoy(endpoints, joined):
    assert static_route(plan(endpoints)).joined == joined


@pytest.mark.parametrize(("prefix", "path"), [("/v1", "/"), ("", "/"), ("/openai/v1", "/openai/v1")])
def test_the_path_of_the_endpoints_takes_the_place_of_the_services_own(prefix, path):
    rewrite = path_rewrite(StaticRoute(prefix))
    assert rewrite == {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": path}}


def test_a_list_of_replicas_leads_to_each_of_them_and_to_no_other():
    """As the gateways of their clusters match it: the whole value."""
    listed = ",".join(static_route(plan([replica("a"), replica("b.c", 1, "192.0.2.2")])).joined)
    named = {name: listed_header(made_replica(name)) for name in ("a", "b.c", "bxc", "c", "b")}
    found = {name for name, header in named.items() if re.fullmatch(header["value"], listed)}
    assert found == {"a", "b.c"}
    assert {header["name"] for header in named.values()} == {"modelplane-replica"}


def made_replica(name):
    spec = {"clusterName": "east", "engines": []}
    return decode(ModelReplica, {"metadata": {"namespace": "team", "name": name}, "spec": spec})


def test_a_service_without_an_endpoint_answers_503_and_not_the_500_of_a_rule_without_backends():
    path = {"type": "PathPrefix", "value": "/team/chat"}
    rule, _ = route_of(plan())["spec"]["rules"]
    assert rule == {"matches": [{"path": path}], "filters": [UNSERVED]}
    response = unserved_filter(plan())["spec"]["directResponse"]
    assert (response["statusCode"], response["contentType"]) == (503, "application/json")
    assert response["header"] == {"set": [{"name": "retry-after", "value": "2"}]}
    assert json.loads(response["body"]["inline"])["error"]["code"] == "service_unavailable"


@pytest.mark.parametrize("made", [SPILLOVER, plan(), plan([provider("groq", prefix="/openai/v1")])])
def test_the_objects_are_what_their_definitions_allow(made, problems):
    for item in (route_of(made), traffic_policy(made), endpoint_policy(made), unserved_filter(made)):
        assert problems(item) == []


def test_the_whole_policy_of_a_service():
    """A list of status codes was inert without its trigger."""
    retried = ["connect-failure", "refused-stream", "reset", "retriable-status-codes"]
    made = plan([replica("us")], timeouts=PlanTimeouts(request_s=600.0, idle_s=60.0))
    assert traffic_policy(made) == {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "BackendTrafficPolicy",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "chat"}],
            "loadBalancer": {"type": "LeastRequest"},
            "retry": {
                "numRetries": 3,
                "numAttemptsPerPriority": 1,
                "retryOn": {"triggers": retried, "httpStatusCodes": [429, 502, 503, 504]},
                "perRetry": {"backOff": {"baseInterval": "25ms", "maxInterval": "50ms"}},
            },
            "timeout": {"http": {"requestTimeout": "600s", "streamIdleTimeout": "60s"}},
            "circuitBreaker": {
                "maxConnections": 65536,
                "maxPendingRequests": 65536,
                "maxParallelRequests": 65536,
                "retryBudget": {"percent": {"numerator": 10}, "minRetryConcurrency": 256},
            },
        },
    }


def test_no_endpoint_is_ejected_where_its_share_goes_nowhere_else():
    """Envoy ejects the only address of a cluster: 27 requests got 503 in the 5 s after a cluster was back."""
    for policy in (traffic_policy(SPILLOVER), endpoint_policy(SPILLOVER)):
        assert "healthCheck" not in policy["spec"]


def test_routes_of_single_endpoints_have_the_limits_of_the_service_and_leave_what_was_said_to_the_router():
    ours, whole = endpoint_policy(SPILLOVER), traffic_policy(SPILLOVER)
    (selector,) = ours["spec"]["targetSelectors"]
    labels = [route["metadata"]["labels"] for route in endpoint_routes(SPILLOVER).values()]
    assert labels == [selector.pop("matchLabels")] * 4
    assert selector == {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}
    assert ours["spec"]["retry"] == {
        "numRetries": 1,
        "retryOn": {"triggers": ["connect-failure", "refused-stream"]},
        "perRetry": {"backOff": {"baseInterval": "25ms", "maxInterval": "50ms"}},
    }
    same = ("timeout", "circuitBreaker", "loadBalancer")
    assert {key: ours["spec"][key] for key in same} == {key: whole["spec"][key] for key in same}
    assert ours["metadata"]["name"] != whole["metadata"]["name"]


def test_both_gateways_try_elsewhere_in_a_tier_of_clusters_by_the_same_policy():
    made = plan([replica("a", 3), replica("b", 1, "192.0.2.2")])
    pool = service_pool("g", made)
    (tier,) = cluster(pool)["load_assignment"]["endpoints"]
    rule, _ = route_of(made)["spec"]["rules"]
    shares = [each.get("load_balancing_weight", 1) for each in tier["lb_endpoints"]]
    assert [ref["weight"] for ref in rule["backendRefs"]] == shares
    assert not any("filters" in ref for ref in rule["backendRefs"])
    ours, theirs = service_retries(pool, 60.0), traffic_policy(made)["spec"]
    triggers = set(ours["retry_on"].split(","))
    assert triggers - set(theirs["retry"]["retryOn"]["triggers"]) == {"retriable-headers"}, "not in Envoy Gateway's"
    assert ours["retriable_status_codes"] == theirs["retry"]["retryOn"]["httpStatusCodes"]
    assert ours["num_retries"] == theirs["retry"]["numRetries"]
    budget = cluster(pool)["circuit_breakers"]["thresholds"][0]["retry_budget"]
    assert budget["budget_percent"]["value"] == theirs["circuitBreaker"]["retryBudget"]["percent"]["numerator"]
    assert budget["min_retry_concurrency"] == theirs["circuitBreaker"]["retryBudget"]["minRetryConcurrency"]


def test_what_the_embedded_envoy_does_and_envoy_gateway_cannot():
    """The exact differences, as docs/services.md lists them."""
    odd = provider("groq", prefix="/openai/v1")
    made = plan([replica("a", 3), replica("b"), odd], [provider("last")])
    embedded = cluster(service_pool("g", made))
    reached = [len(tier["lb_endpoints"]) for tier in embedded["load_assignment"]["endpoints"]]
    assert (sum(reached), len({tier.get("priority", 0) for tier in embedded["load_assignment"]["endpoints"]})) == (4, 2)
    assert "outlier_detection" in embedded
    rule, _ = route_of(made)["spec"]["rules"]
    assert [ref["name"] for ref in rule["backendRefs"]] == ["a", "b"]
    assert all(ref["filters"] for ref in rule["backendRefs"]), "each is a cluster of its own, where retries stay"


def test_endpoints_of_a_tier_share_their_path_or_are_left_out():
    odd = provider("groq", prefix="/openai/v1")
    assert static_route(plan([replica("a", 2), odd])).left_out == (odd,)
    assert static_route(plan([odd])).prefix == "/openai/v1"
    assert static_route(plan([replica("a"), odd])).prefix == "/v1"


def test_a_rule_has_as_many_backends_as_it_may_have():
    many = plan([replica(f"r{number:02}", 1 + (number == 19)) for number in range(20)])
    found = static_route(many)
    assert (len(found.endpoints), len(found.left_out)) == (MOST_BACKENDS, 4)
    assert "team/r19" in {endpoint.key for endpoint in found.endpoints}


def of_gateway_objects(made):
    """What Envoy Gateway is told, as plain values."""
    rule, _ = route_of(made)["spec"]["rules"]
    policy = traffic_policy(made)["spec"]
    return {
        "shares": {ref["name"]: ref["weight"] for ref in rule["backendRefs"]},
        "hosts": {
            ref["name"]: each["urlRewrite"]["hostname"]
            for ref in rule["backendRefs"]
            for each in ref["filters"]
            if each["type"] == "URLRewrite"
        },
        "keys": {ref["name"] for ref in rule["backendRefs"] if ref["filters"][-1]["type"] == "ExtensionRef"},
        "request_s": float(policy["timeout"]["http"]["requestTimeout"].removesuffix("s")),
        "idle_s": float(policy["timeout"]["http"]["streamIdleTimeout"].removesuffix("s")),
        "codes": policy["retry"]["retryOn"]["httpStatusCodes"],
        "budget": (
            policy["circuitBreaker"]["retryBudget"]["percent"]["numerator"],
            policy["circuitBreaker"]["retryBudget"]["minRetryConcurrency"],
        ),
    }


def of_embedded_envoy(made):
    """What the embedded Envoy is told, as the same values."""
    shown = cluster(service_pool("g", made))
    action = next(each["route"] for each in front_routes("g", [made]) if each["match"] == {"prefix": "/team/chat/"})
    first = [each for each in shown["load_assignment"]["endpoints"] if "priority" not in each]
    members = [member for tier in first for member in tier["lb_endpoints"]]
    names = [each["metadata"]["filter_metadata"]["modelplane"]["modelplane-replica"] for each in members]
    outward = {
        each["route"]["cluster"].rpartition("/")[2]: each
        for each in provider_routes("g", [replace(made, tiers=made.tiers[:1])], {"team/acme": "Bearer x"})
    }
    limits = shown["circuit_breakers"]["thresholds"][0]["retry_budget"]
    return {
        "shares": {
            name.partition("/")[2]: each.get("load_balancing_weight", 1)
            for name, each in zip(names, members, strict=True)
        },
        "hosts": {name: each["route"]["host_rewrite_literal"] for name, each in outward.items()},
        "keys": {name for name, each in outward.items() if each["request_headers_to_add"]},
        "request_s": float(action["timeout"].removesuffix("s")),
        "idle_s": float(action["retry_policy"]["per_try_idle_timeout"].removesuffix("s")),
        "codes": action["retry_policy"]["retriable_status_codes"],
        "budget": (limits["budget_percent"]["value"], limits["min_retry_concurrency"]),
    }


@pytest.mark.parametrize(
    "made",
    [
        SPILLOVER,
        replace(SPILLOVER, timeouts=PlanTimeouts(600.0, 45.0)),
        plan([replica("a"), replica("b")]),
        plan([replica("a", 3), replica("b")], [provider("acme")]),
    ],
)
def test_both_renderers_say_the_same(made):
    assert of_gateway_objects(made) == of_embedded_envoy(made)
