"""The router on Kubernetes: the rendered set as it was last reviewed, and each object by the real definitions."""

from pathlib import Path

import pytest
import yaml

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.compose.endpoint_routes import endpoint_routes
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.router_objects import OBJECT_MAP_BYTES, RouterSite, plan_maps, read_plan_map, router_objects
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan, plan_document

GOLDEN = Path(__file__).parent / "golden_router.yaml"


def endpoint(name, **more):
    given = {"group": "main", "weight": 1, "secure": False, "address": "10.0.0.1", "port": 80, "host": None}
    return PlanEndpoint(f"team/{name}", **(given | more))


def plan(name="chat", *endpoints):
    return ServicePlan("team", name, tiers=(PlanTier(0, endpoints),))


PROVIDER = {"secure": True, "address": "api.example", "host": "api.example", "prefix": "/openai/v1", "port": 443}
CHAT = plan(
    "chat",
    endpoint("a", replica="team/a-1", cluster="east"),
    endpoint("saas", credential=CredentialRef("key", "apiKey"), **PROVIDER),
)


SITE = RouterSite("modelplane", "example.org/modelplane:1")
CALLERS = CallerDocument((Caller("ada", services=("team/*",)),), checks_keys=False)


def test_the_router_is_as_reviewed_and_well_formed(problems, golden):
    objects = [*router_objects(SITE, [CHAT], CALLERS).values(), *endpoint_routes(CHAT).values()]
    assert [found for item in objects for found in problems(item)] == []
    golden.check(GOLDEN, yaml.safe_dump_all(objects, sort_keys=False, width=110))


def test_plans_are_spread_over_maps_that_are_small_enough():
    many = [plan(f"service-{number}", *(endpoint(f"e{at}") for at in range(64))) for number in range(100)]
    maps = list(plan_maps(SITE, many, CALLERS).values())
    assert len(maps) > 1
    assert all(sum(map(len, each["data"].values())) < 1_000_000 for each in maps)
    assert [plan for each in maps for plan in read_plan_map(each)] == sorted(many, key=lambda each: each.key)
    assert ["callers.json" in each["data"] for each in maps] == [True, *[False] * (len(maps) - 1)]


@pytest.mark.parametrize(
    ("lacking", "named"), [(0, [["team.a.json", "team.b.json"]]), (1, [["team.a.json"], ["team.b.json"]])]
)
def test_a_map_is_begun_when_the_one_before_is_full(lacking, named):
    large, small = (plan(name, endpoint("a", address="a" * size)) for name, size in (("a", 900_000), ("b", 1)))
    size = sum(len(plan_document(each)) for each in (large, small))
    maps = plan_maps(SITE._replace(map_bytes=size - lacking), [small, large], CALLERS)
    assert [[name for name in each["data"] if name != "callers.json"] for each in maps.values()] == named


@pytest.mark.parametrize(
    ("site", "room"),
    [(SITE, 900_000), (SITE._replace(map_bytes=OBJECT_MAP_BYTES), 400_000)],
    ids=["a map", "an Object with a map"],
)
def test_how_much_a_map_takes(site, room):
    def maps(size):
        length = size - sum(len(plan_document(plan(name, endpoint("a", address="")))) for name in "ab")
        plans = [plan(name, endpoint("a", address=address)) for name, address in (("a", "a" * length), ("b", ""))]
        return len(plan_maps(site, plans, CALLERS))

    assert (maps(room), maps(room + 1)) == (1, 2)


def test_a_map_after_a_full_one_is_filled_too():
    plans = [plan(name, endpoint("a", address="a" * size)) for name, size in (("a", 900), ("b", 1), ("c", 1))]
    site = SITE._replace(map_bytes=sum(len(plan_document(each)) for each in plans[1:]))
    named = [
        [name for name in each["data"] if name != "callers.json"] for each in plan_maps(site, plans, CALLERS).values()
    ]
    assert named == [["team.a.json"], ["team.b.json", "team.c.json"]]


def test_without_services_there_is_still_a_map_to_mount():
    (only,) = plan_maps(SITE, [], CALLERS).values()
    assert only["data"] == {
        "callers.json": '{"callers":[{"name":"ada","services":["team/*"]}],"checksKeys":false}',
    }


def test_each_gateway_has_a_router_of_its_own():
    names = {RouterSite(gateway, "i").name for gateway in ("modelplane", "modelplane-eu", "modelplane-us")}
    assert len(names) == 3


def test_a_router_that_must_answer_is_not_passed_by():
    def fails_open(site):
        return router_objects(site, [], CALLERS)["router-extension"]["spec"]["extProc"][0]["failOpen"]

    assert (fails_open(SITE), fails_open(SITE._replace(required=True))) == (True, False)
