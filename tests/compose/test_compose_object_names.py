"""Names of a service's objects at gateways: each its own."""

from modelplane.compose.object_names import ObjectNames, backend_name, local_names, names_at
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan

ONE = PlanEndpoint("team/one", "main", 1, secure=False, address="192.0.2.9", port=80, host=None)


def plan(name="chat", namespace="team"):
    return ServicePlan(namespace, name, tiers=(PlanTier(0, (ONE,)),))


def test_beside_the_control_plane_they_are_the_services_and_the_endpoints_own():
    found = local_names(plan())
    assert (found, found.backend(ONE)) == (ObjectNames("team", "chat"), "one")


def test_on_clusters_no_two_gateways_services_or_tenants_share_one():
    found = [
        names_at(made, gateway) for made in (plan(), plan("code"), plan(namespace="other")) for gateway in ("eu", "us")
    ]
    assert len({(each.namespace, each.service) for each in found}) == 6
    assert len({(each.namespace, each.backend(ONE)) for each in found}) == 6
    assert names_at(plan(), "eu").backend(ONE) == backend_name(plan(), "eu", "one")
