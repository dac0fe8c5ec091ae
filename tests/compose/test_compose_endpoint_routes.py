from modelplane.compose.endpoint_routes import endpoint_routes
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, PlanTimeouts, ServicePlan


def endpoint(name, **more):
    given = {"group": "main", "weight": 1, "secure": False, "address": "10.0.0.1", "port": 80, "host": None}
    return PlanEndpoint(f"team/{name}", **(given | more))


def rules(*endpoints):
    plan = ServicePlan("team", "chat", tiers=(PlanTier(0, endpoints),), timeouts=PlanTimeouts(request_s=30.0))
    return [rule for route in endpoint_routes(plan).values() for rule in route["spec"]["rules"]]


def test_a_replica_is_told_to_its_clusters_gateway():
    assert rules(endpoint("a", replica="team/a-1")) == [
        {
            "matches": [
                {
                    "path": {"type": "PathPrefix", "value": "/_endpoints/team/chat/a"},
                    "headers": [{"type": "Exact", "name": "x-modelplane-endpoint", "value": "team/a"}],
                }
            ],
            "filters": [
                {
                    "type": "URLRewrite",
                    "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
                }
            ],
            "backendRefs": [
                {
                    "group": "gateway.envoyproxy.io",
                    "kind": "Backend",
                    "name": "a",
                    "weight": 1,
                    "filters": [
                        {
                            "type": "RequestHeaderModifier",
                            "requestHeaderModifier": {
                                "remove": ["x-modelplane-endpoint"],
                                "set": [{"name": "modelplane-replica", "value": "team/a-1"}],
                            },
                        }
                    ],
                }
            ],
            "timeouts": {"request": "30s"},
        }
    ]


def test_a_provider_gets_its_host_and_its_credential():
    more = {"address": "api.example", "host": "api.example", "prefix": "/openai/v1"}
    (rule,) = rules(endpoint("p", credential=CredentialRef("s", "k"), **more))
    assert rule["matches"][0]["path"]["value"] == "/_endpoints/team/chat/p/v1"
    assert rule["filters"][0]["urlRewrite"] == {
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/openai/v1"},
        "hostname": "api.example",
    }
    changed, added = rule["backendRefs"][0]["filters"]
    assert changed["requestHeaderModifier"] == {
        "remove": ["x-modelplane-endpoint", "modelplane-replica", "x-modelplane-caller"]
    }
    assert added["extensionRef"] == {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": "p"}


def test_a_provider_without_a_prefix_is_called_at_its_root():
    (rule,) = rules(endpoint("p", prefix=""))
    assert rule["matches"][0]["path"]["value"] == "/_endpoints/team/chat/p/v1"
    assert rule["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] == "/"


def test_a_host_that_is_a_number_is_not_rewritten():
    (rule,) = rules(endpoint("p", host="10.0.0.1"))
    assert "hostname" not in rule["filters"][0]["urlRewrite"]


def test_what_cannot_answer_has_no_rule():
    assert rules(endpoint("a", ready=False, weight=0)) == []


def test_a_new_endpoint_changes_no_route_of_another():
    """Envoy Gateway names clusters by a rule's place in its route."""

    def routes(*names):
        plan = ServicePlan("team", "chat", tiers=(PlanTier(0, tuple(map(endpoint, names))),))
        return endpoint_routes(plan)

    before, after = routes("a", "c"), routes("a", "b", "c")
    assert {name: after[name] for name in before} == before
    assert [len(route["spec"]["rules"]) for route in after.values()] == [1, 1, 1]
    assert len({route["metadata"]["name"] for route in after.values()}) == 3


def test_an_endpoint_that_leaves_keeps_its_route_and_one_that_is_not_ready_has_none():
    leaving = endpoint("a", ready=False, reason="Leaving", replica="team/a-1")
    assert rules(leaving, endpoint("b", ready=False, reason="WorkloadStarting")) == rules(
        endpoint("a", replica="team/a-1")
    )
