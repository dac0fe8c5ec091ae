"""From plans to clusters."""

import pytest

from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, RetryBudget, ServicePlan
from modelplane.envoy.clusters import EJECTION, cluster
from modelplane.envoy.pools import EnvoyCluster, PoolMember, UpstreamTls
from modelplane.envoy.service_pools import is_gateway, provider_pool, providers, routing_key, service_pool


def replica(name, weight=1, address="192.0.2.1", **fields):
    return PlanEndpoint(f"team/{name}", "main", weight, False, address, 80, None, replica=f"team/{name}-r", **fields)


def provider(name, weight=1, address="api.example", **fields):
    key = CredentialRef("s", "k")
    return PlanEndpoint(f"team/{name}", "hosted", weight, True, address, 443, address, credential=key, **fields)


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


@pytest.mark.parametrize(
    ("endpoint", "members", "sni"),
    [
        (provider("p"), (), "api.example"),
        (provider("p", addresses=("93.184.215.14",)), ("93.184.215.14",), "api.example"),
        (provider("p", addresses=("8.8.8.8", "2606:4700::1")), ("8.8.8.8", "2606:4700::1"), "api.example"),
        (provider("p", address="8.8.4.4", addresses=("8.8.8.8",)), ("8.8.4.4",), None),
    ],
)
def test_a_provider_is_called_at_the_addresses_that_were_checked_and_proves_its_name(endpoint, members, sni):
    found = provider_pool("g", endpoint)
    named = tuple(PoolMember(address, 443) for address in members)
    assert found == EnvoyCluster("g/ModelEndpoint/team/p", named, tls=UpstreamTls(sni))
    assert cluster(found)["type"] == "STATIC"
