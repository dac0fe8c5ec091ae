"""From plans to clusters."""

from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, RetryBudget, ServicePlan
from modelplane.envoy.clusters import EJECTION, cluster
from modelplane.envoy.pools import EnvoyCluster, PoolMember, UpstreamTls
from modelplane.envoy.service_pools import is_gateway, provider_pool, providers, routing_key, service_pool


def replica(name, weight=1, address="192.0.2.1", **fields):
    return PlanEndpoint(f"team/{name}", "main", weight, False, address, 80, None, replica=f"team/{name}-r", **fields)


def provider(name, weight=1):
    return PlanEndpoint(
        f"team/{name}", "hosted", weight, True, "api.example", 443, "api.example", credential=CredentialRef("s", "k")
    )


def plan(*tiers):
    return ServicePlan("team", "chat", tiers=tuple(PlanTier(10 * n, tuple(tier)) for n, tier in enumerate(tiers)))


def test_one_cluster_has_all_endpoints_in_tiers_without_gaps():
    away = PlanEndpoint("team/away", "main", 0, False, "192.0.2.9", 80, None, ready=False)
    found = service_pool("g", plan([replica("a", 7), provider("p", 3)], [away], [provider("q")]))
    assert found == EnvoyCluster(
        "g/ModelService/team/chat",
        (
            PoolMember("192.0.2.1", 80, 7, (("modelplane-replica", "team/a-r"),), 0),
            PoolMember("g.providers.sock", 0, 3, (("modelplane-replica", "team/p"),), 0),
            PoolMember("g.providers.sock", 0, 1, (("modelplane-replica", "team/q"),), 1),
        ),
        retries=RetryBudget(),
    )
    shown = cluster(found)
    assert [each.get("priority", 0) for each in shown["load_assignment"]["endpoints"]] == [0, 1]
    assert shown["load_assignment"]["policy"] == {"overprovisioning_factor": 100_000}
    assert shown["outlier_detection"] == EJECTION
    assert shown["circuit_breakers"]["thresholds"][0]["retry_budget"] == {
        "budget_percent": {"value": 10},
        "min_retry_concurrency": 256,
    }


def test_a_service_without_endpoints_has_no_cluster_and_one_with_one_ejects_nobody():
    assert service_pool("g", plan()) is None
    assert "outlier_detection" not in cluster(service_pool("g", plan([replica("a")])))


def test_replicas_behind_a_name_and_providers_are_reached_through_a_route_of_their_own():
    named = replica("n", address="gateway.example")
    assert [each.key for each in providers(plan([replica("a"), named], [provider("p")]))] == ["team/n", "team/p"]
    assert (is_gateway(replica("a")), is_gateway(named), routing_key(named)) == (True, False, "team/n-r")
    assert provider_pool("g", provider("p")) == EnvoyCluster(
        "g/ModelEndpoint/team/p", (PoolMember("api.example", 443),), by_name=True, tls=UpstreamTls("api.example")
    )
