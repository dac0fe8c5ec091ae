"""What a ModelService reads of its observed route, however that looks."""

import pytest

from modelplane.compose.observed_route import ObservedRoute, read_endpoints, read_route

REWRITE = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
FILTER = {"type": "URLRewrite", "urlRewrite": REWRITE}
LISTED = {"requestHeaderModifier": {"set": [{"name": "modelplane-replica", "value": "team/a,team/b"}]}}
OTHER_HEADER = {"name": "x-team", "value": "a"}
ONE, TWO = {"name": "one", "weight": 1}, {"name": "two", "weight": 2}


def route(*rules):
    return {"spec": {"rules": list(rules)}}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({}, ObservedRoute(), id="nothing"),
        pytest.param({"spec": 7}, ObservedRoute(), id="no spec"),
        pytest.param(route(7, None), ObservedRoute(), id="rules that are none"),
        pytest.param(route({"filters": [7, {}], "backendRefs": [7, {}, {"name": []}]}), ObservedRoute(), id="garbled"),
        pytest.param(
            route({"filters": [FILTER], "backendRefs": [ONE, TWO]}),
            ObservedRoute(REWRITE, {"one": ONE, "two": TWO}),
            id="a route as it is made",
        ),
        pytest.param(
            route({"filters": [FILTER], "backendRefs": [ONE]}, {"backendRefs": [TWO]}),
            ObservedRoute(REWRITE, {"one": ONE, "two": TWO}),
            id="two rules",
        ),
        pytest.param(
            route({"filters": [{"type": "RequestHeaderModifier", **LISTED}, FILTER], "backendRefs": [ONE]}),
            ObservedRoute(REWRITE, {"one": ONE}, ("team/a", "team/b")),
            id="a rewrite after a list of replicas",
        ),
        pytest.param(
            route({"filters": [FILTER, LISTED], "backendRefs": [ONE, TWO]}),
            ObservedRoute(REWRITE, {"one": ONE, "two": TWO}, ("team/a", "team/b")),
            id="a list of replicas",
        ),
        pytest.param(
            route({"filters": [{"requestHeaderModifier": {"set": [OTHER_HEADER]}}, LISTED]}),
            ObservedRoute(joined=("team/a", "team/b")),
            id="a list of replicas after another header",
        ),
    ],
)
def test_a_route_is_read_as_far_as_it_can_be(item, expected):
    assert read_route(item) == expected


def endpoint(name, *conditions):
    return {"metadata": {"name": name}, "spec": {"url": "http://192.0.2.1"}, "status": {"conditions": conditions}}


READY, NOT_READY = {"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}


@pytest.mark.parametrize(
    ("listed", "required", "found", "doubted"),
    [
        pytest.param([endpoint("one", READY)], {"endpoint-two": ()}, [("one", True, False)], [], id="absent by name"),
        pytest.param([endpoint("one", READY)], {}, [("one", True, False)], ["two"], id="not asked by name yet"),
        pytest.param(
            [endpoint("one", READY), {"metadata": {"name": "two"}}],
            {},
            [("one", True, False)],
            ["two"],
            id="unreadable",
        ),
        pytest.param(
            [endpoint("one", READY), {**endpoint("two", READY), "spec": {}}],
            {},
            [("one", True, False)],
            ["two"],
            id="without an address",
        ),
        pytest.param(
            [endpoint("one"), endpoint("two", NOT_READY)],
            {},
            [("one", False, True), ("two", False, False)],
            [],
            id="silent, and not ready",
        ),
        pytest.param(
            [endpoint("one", NOT_READY), endpoint("one", READY)],
            {"endpoint-two": ()},
            [("one", True, False)],
            [],
            id="twice",
        ),
        pytest.param(
            [endpoint("new")],
            {"endpoint-one": (), "endpoint-two": ()},
            [("new", False, False)],
            [],
            id="silent, and no backend yet",
        ),
    ],
)
def test_endpoints_are_read_once_and_backends_without_one_are_in_doubt(listed, required, found, doubted):
    read = read_endpoints(listed, ObservedRoute(REWRITE, {"one": ONE, "two": TWO}), required)
    assert sorted((item.endpoint.metadata.name, item.ready, item.kept) for item in read.found) == found
    assert read.doubted == doubted


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ({"url": "http://192.0.2.1/v1/models", "names": ["a"], "total": 1}, ("a",)),
        ({"url": 7}, None),
        (None, None),
    ],
    ids=["listed", "garbled", "not read"],
)
def test_models_that_cannot_be_read_are_not_known(models, expected):
    item = endpoint("one", READY)
    item["status"]["models"] = models
    (found,) = read_endpoints([item], ObservedRoute(), {}).found
    assert (found.models and found.models.names) == expected


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [(["192.0.2.1", "api.example", 7, "2001:db8::1"], ("192.0.2.1", "2001:db8::1")), ("192.0.2.1", ()), (None, ())],
    ids=["some are none", "no list", "not resolved"],
)
def test_addresses_that_are_none_are_left_out(addresses, expected):
    item = endpoint("one", READY)
    item["status"]["addresses"] = addresses
    (found,) = read_endpoints([item], ObservedRoute(), {}).found
    assert found.addresses == expected


DENIED = {
    "type": "RouteReady",
    "status": "False",
    "reason": "OutboundRefused",
    "message": "spec.url: a private address",
}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((NOT_READY, DENIED), ("OutboundRefused", "spec.url: a private address")),
        (({**NOT_READY, "reason": "Pending", "message": "soon"},), ("Pending", "soon")),
        (({**DENIED, "reason": "R" * 99, "message": "m" * 2000},), ("R" * 63, "m" * 1024)),
        (({**DENIED, "status": "Unknown"},), ("", "")),
        ((READY, DENIED), ("", "")),
    ],
    ids=["a condition that says more", "Ready alone", "too long", "none is False", "it is ready"],
)
def test_why_an_endpoint_is_not_ready(conditions, expected):
    (found,) = read_endpoints([endpoint("one", *conditions)], ObservedRoute(), {}).found
    assert (found.reason, found.message) == expected


def test_an_endpoint_that_leaves_gets_nothing_and_is_not_kept():
    left = {
        "metadata": {
            "name": "a",
            "namespace": "t",
            "annotations": {"modelplane.ai/leaving-since": "2026-01-01T00:00:00Z"},
        },
        "spec": {"url": "http://192.0.2.1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = read_endpoints([left], ObservedRoute(backends={"a": {"name": "a"}}), {})
    ((only,), doubted) = found.found, found.doubted
    assert (only.ready, only.kept, only.reason, doubted) == (False, False, "Leaving", [])
    assert only.message == "its replica is being removed"
