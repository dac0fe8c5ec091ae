"""The tiers of a service in its status."""

from modelplane.api.models import TierEndpoint, TierStatus
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan
from modelplane.compose.service_status import tier_statuses


def endpoint(name, weight=1, **fields):
    return PlanEndpoint(f"team/{name}", "main", weight, False, "192.0.2.1", 80, None, **fields)


def test_each_tier_says_its_share_and_why_endpoints_are_left_out():
    away = endpoint("away", 0, ready=False, reason="ImagePullFailed", message="i: not found", cluster="east")
    made = ServicePlan(
        "team",
        "chat",
        tiers=(PlanTier(0, (away,)), PlanTier(2, (endpoint("a", 2), endpoint("b"), endpoint("idle", 0)))),
    )
    assert tier_statuses(made) == (
        TierStatus(
            priority=0,
            share_percent=0,
            matched=1,
            ready=0,
            endpoints=(
                TierEndpoint(
                    name="away",
                    group="main",
                    cluster="east",
                    share_permille=0,
                    reason="ImagePullFailed",
                    message="i: not found",
                ),
            ),
        ),
        TierStatus(
            priority=2,
            share_percent=100,
            matched=3,
            ready=3,
            endpoints=(
                TierEndpoint(name="a", group="main", share_permille=666),
                TierEndpoint(name="b", group="main", share_permille=333),
                TierEndpoint(
                    name="idle",
                    group="main",
                    share_permille=0,
                    reason="NoWeight",
                    message="the weight of group main is 0",
                ),
            ),
        ),
    )


def test_what_is_left_out_is_shown_first_where_not_all_are():
    crowd = [endpoint(f"a{number:03}") for number in range(100)]
    away = endpoint("zzz", 0, ready=False, reason="Starting")
    (found,) = tier_statuses(ServicePlan("team", "chat", tiers=(PlanTier(0, (*crowd, away)),)))
    assert (found.matched, found.ready, len(found.endpoints)) == (101, 100, 64)
    assert found.endpoints[-1].name == "zzz"
