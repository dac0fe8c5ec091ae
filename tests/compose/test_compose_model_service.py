"""When a service counts as ready: its route leads to somebody, and the gateway says that it is in force."""

import msgspec
import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GatewayRoute, ModelService
from modelplane.compose import model_service
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen, Requirement

GATEWAY = {"metadata": {"name": "default"}, "spec": {}, "status": {"address": "192.0.2.1"}}
EU = {**GATEWAY, "metadata": {"name": "eu"}}


def endpoint(name, ready="True"):
    return {
        "metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}},
        "spec": {"url": "http://192.0.2.9"},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "X"}]},
    }


def composed(endpoints, seen=None, *, ready=True, gateway=GATEWAY, **required):
    """The result for endpoints of these names. No object is named `gone`."""
    listed = tuple(endpoint(item) if isinstance(item, str) else item for item in endpoints)
    required = {"endpoints": listed, "gateways": (gateway,), "endpoint-gone": (), **required}
    return compose(required, seen, ready=ready)


def compose(required, seen=None, status=None, *, ready=True):
    spec = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}}]}
    metadata = {"name": "chat", "namespace": "team"}
    service = decode(ModelService, {"metadata": metadata, "spec": spec, "status": status or {}})
    observed = {} if seen is None else {"route": Observed(Local(seen, ReadyWhen.ROUTED), ready)}
    return model_service.compose(ComposeRequest(service, observed, required))


def route_to(*endpoints):
    return composed(endpoints).desired["route"].target.manifest


@pytest.mark.parametrize(
    ("seen", "accepted", "status"),
    [
        pytest.param(None, True, "False", id="no route yet"),
        pytest.param((), True, "False", id="a route from before there was anybody, accepted: it answers 503"),
        pytest.param(("gone",), True, "False", id="a route to somebody who is gone"),
        pytest.param(("one",), True, "True", id="a route to one of them"),
        pytest.param(("one", "two"), True, "True", id="the route as it should be"),
        pytest.param(("one", "two"), False, "False", id="the route as it should be, not taken yet"),
    ],
)
def test_it_is_ready_when_the_route_in_force_leads_to_somebody_who_answers(seen, accepted, status):
    found = composed(("one", "two"), None if seen is None else route_to(*seen), ready=accepted)
    assert found.ready.status.value == status
    assert found.desired["route"].ready is (status == "True")


def test_a_service_without_endpoints_has_its_route_and_says_what_it_lacks():
    found = composed((), route_to())
    assert found.desired["route"].ready
    assert (found.ready.status.value, found.ready.reason.value) == ("False", "NoEndpoints")
    said = "0 endpoints match in this namespace; the address answers 503"
    assert resolved(found) == ("False", "NoEndpoints", said)


TLS = {"tls": {"secretRef": {"name": "front"}}}


@pytest.mark.parametrize(
    ("spec", "address", "expected"),
    [
        ({}, "192.0.2.1", "http://192.0.2.1"),
        (TLS, "192.0.2.1", "https://192.0.2.1"),
        (TLS, "127.0.0.1:8080", "https://127.0.0.1:8080"),
        ({"hostname": "models.example"}, "192.0.2.1", "http://models.example"),
        ({"hostname": "models.example", **TLS}, "127.0.0.1:8080", "https://models.example:8080"),
        ({"hostname": "models.example"}, "[2001:db8::1]:8080", "http://models.example:8080"),
        ({"hostname": "models.example"}, "2001:db8::1", "http://models.example"),
        ({"hostname": "*.example"}, "127.0.0.1:8080", "http://chat.example:8080"),
    ],
)
def test_its_address_is_how_the_gateway_is_called(spec, address, expected):
    gateway = {"metadata": {"name": "default"}, "spec": spec, "status": {"address": address}}
    assert composed(("one",), gateway=gateway).status.address == f"{expected}/team/chat"


def backends(found):
    refs = found.desired["route"].target.manifest["spec"]["rules"][0]["backendRefs"]
    return {ref["name"]: ref["weight"] for ref in refs}


def resolved(found):
    return found.conditions[0].status.value, found.conditions[0].reason.value, found.conditions[0].message


def staying(ready, total, kept, name):
    message = f"{ready} of {total} endpoints are ready; {kept} cannot be read and stay in the route ({name})"
    return "Unknown", "Unresolved", message


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        pytest.param((), staying(0, 0, 2, "one"), id="empty"),
        pytest.param(("one",), staying(1, 1, 1, "two"), id="short"),
        pytest.param(("one", "one", "two"), ("True", "EndpointsFound", "2 of 2 endpoints are ready"), id="one twice"),
        pytest.param(("one", {**endpoint("two"), "spec": 7}), staying(1, 1, 1, "two"), id="one cannot be read"),
        pytest.param(("one", {**endpoint("two"), "status": {}}), staying(1, 2, 1, "two"), id="one without a status"),
        pytest.param(
            ("one", {**endpoint("two"), "status": {"conditions": [{"type": "Ready"}, 7]}}),
            staying(1, 2, 1, "two"),
            id="one with a garbled status",
        ),
        pytest.param(("one", endpoint("two", "Unknown")), staying(1, 2, 1, "two"), id="one that does not know"),
        pytest.param(
            ({}, {"metadata": 7}, "one", "two"),
            ("True", "EndpointsFound", "2 of 2 endpoints are ready"),
            id="and garbage",
        ),
    ],
)
def test_a_list_of_endpoints_that_is_short_or_garbled_takes_no_backend_from_the_route(listed, told):
    found = composed(listed, route_to("one", "two"))
    assert backends(found) == {"one": 1, "two": 1}
    assert found.desired["route"].ready
    assert resolved(found) == told


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        pytest.param({}, {"one": 1, "two": 1}, id="not read by name yet"),
        pytest.param({"endpoint-two": (endpoint("two"),)}, {"one": 1, "two": 1}, id="there"),
        pytest.param({"endpoint-two": ({**endpoint("two"), "spec": 7},)}, {"one": 1, "two": 1}, id="unreadable"),
        pytest.param({"endpoint-two": ()}, {"one": 1}, id="absent"),
        pytest.param({"endpoint-two": (endpoint("two", "False"),)}, {"one": 1}, id="there, and not ready"),
    ],
)
def test_a_backend_that_is_not_listed_is_required_by_name_and_leaves_when_it_is_absent(answered, expected):
    found = composed(("one",), route_to("one", "two"), **answered)
    assert backends(found) == expected
    wanted = Requirement("modelplane.ai/v1alpha1", "ModelEndpoint", name="two", namespace="team")
    assert found.requirements["endpoint-two"] == wanted


def test_a_backend_that_is_in_doubt_keeps_the_route_when_the_others_need_another_rewrite():
    named = {**endpoint("one"), "spec": {"url": "https://models.example/openai"}}
    before = route_to("one", "two")
    found = composed((named,), before)
    assert found.desired["route"].target.manifest == before
    assert backends(composed((named,), before, **{"endpoint-two": ()})) == {"one": 1}


def placed(name, number):
    """An endpoint of a replica on a cluster of its own."""
    spec = {"url": f"http://192.0.2.{number}", "replica": {"name": name, "clusterName": f"c{number}"}}
    made = endpoint(name)
    return {**made, "metadata": {**made["metadata"], "annotations": {"modelplane.ai/listed": "true"}}, "spec": spec}


def listed(found):
    filters = found.desired["route"].target.manifest["spec"]["rules"][0]["filters"]
    return [each["requestHeaderModifier"]["set"][0]["value"] for each in filters[1:]]


def test_while_a_backend_is_in_doubt_nobody_joins_and_the_list_of_replicas_stays():
    one, two, three = placed("one", 1), placed("two", 2), placed("three", 3)
    before = route_to(one, two)
    calm = composed((one, two, three), before)
    assert (listed(calm), backends(calm)) == (["team/one,team/three,team/two"], {"one": 1, "two": 1, "three": 1})
    doubted = composed((one, three), before)
    assert (listed(doubted), backends(doubted)) == (["team/one,team/two"], {"one": 1, "two": 1})
    gone = composed((one, three), before, **{"endpoint-two": ()})
    assert (listed(gone), backends(gone)) == (["team/one,team/three"], {"one": 1, "three": 1})
    alone = composed((one,), before)
    assert (listed(alone), backends(alone)) == (["team/one,team/two"], {"one": 1, "two": 1})
    first = composed((two, three), route_to(one))
    assert (listed(first), backends(first)) == ([], {"one": 1})


@pytest.mark.parametrize("gateway", [{}, {"spec": 7}, {"metadata": {"name": "default"}, "status": 7}])
def test_a_gateway_that_cannot_be_read_changes_no_route(gateway):
    found = composed(("one",), route_to("one"), gateway=gateway)
    assert backends(found) == {"one": 1}
    assert found.conditions[1].message.endswith("cannot be read")


def test_a_gateway_that_cannot_be_read_stays_a_parent_of_the_route():
    before = compose({"endpoints": (endpoint("one"),), "gateways": (GATEWAY, EU)}).desired["route"].target.manifest
    unread = {"endpoints": (endpoint("one"),), "gateways": (GATEWAY, {**EU, "status": 7})}
    after = compose(unread, before).desired["route"].target.manifest
    assert len(before["spec"]["parentRefs"]) == 2
    assert after["spec"]["parentRefs"] == before["spec"]["parentRefs"]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param({"endpoints": (endpoint("one"), endpoint("two"))}, id="the gateways are not read"),
        pytest.param({"gateways": (GATEWAY, EU)}, id="the endpoints are not read"),
    ],
)
def test_a_route_stays_until_both_lists_are_read(read):
    before = route_to("one")
    assert compose(read, before).desired["route"].target.manifest == before


def test_endpoints_that_are_not_read_are_not_counted():
    assert resolved(compose({"gateways": (GATEWAY,)})) == ("Unknown", "Unresolved", "the endpoints are not read yet")


def parents(found):
    return [each["name"] for each in found.desired["route"].target.manifest["spec"]["parentRefs"]]


@pytest.mark.parametrize(
    ("gateways", "expected"),
    [
        ((GATEWAY, {**EU, "status": {}}), ["modelplane"]),
        (({**GATEWAY, "status": {}},), ["modelplane"]),
    ],
    ids=["one has an address", "none has one yet"],
)
def test_a_route_is_at_the_gateways_that_have_an_address(gateways, expected):
    found = compose({"endpoints": (endpoint("one"),), "gateways": gateways})
    addressed = sum(bool(each["status"]) for each in gateways)
    assert (parents(found), found.status.routes.total) == (expected, addressed)


@pytest.mark.parametrize(
    ("gateways", "required", "stays"),
    [
        pytest.param((GATEWAY, {**EU, "status": {}}), {}, True, id="its address is lost"),
        pytest.param((GATEWAY,), {}, True, id="it is missing from the list"),
        pytest.param((GATEWAY,), {"gateway-eu": (EU,)}, True, id="it is found by name"),
        pytest.param((GATEWAY,), {"gateway-eu": ()}, False, id="it is absent by name"),
    ],
)
def test_a_gateway_leaves_the_routes_only_when_it_is_known_to_be_gone(gateways, required, stays):
    listed = {"endpoints": (endpoint("one"),)}
    before = compose({**listed, "gateways": (GATEWAY, EU)})
    status = {"gateways": [{"name": "default"}, {"name": "eu"}]}
    found = compose({**listed, "gateways": gateways, **required}, before.desired["route"].target.manifest, status)
    assert len(parents(before)) == 2
    assert parents(found) == (parents(before) if stays else ["modelplane"])


UNROUTED = {**GATEWAY, "spec": {"router": {"replicas": 0}}}
UNROUTED_EU = {**UNROUTED, "metadata": {"name": "eu"}, "status": {"address": "192.0.2.2"}}
ROUTED = {**GATEWAY, "spec": {"router": {"image": "example.org/modelplane:1"}}}


def endpoint_rules(found):
    routes = [each.target.manifest for key, each in found.desired.items() if key.startswith("endpoints-")]
    return [
        (route["spec"]["parentRefs"][0]["name"], rule["backendRefs"][0]["name"])
        for route in routes
        for rule in route["spec"]["rules"]
    ]


@pytest.mark.parametrize(
    ("gateway", "expected"),
    [
        (UNROUTED, []),
        (GATEWAY, [("modelplane", "one"), ("modelplane", "two")]),
        (ROUTED, [("modelplane", "one"), ("modelplane", "two")]),
    ],
    ids=["no router", "the default", "a router"],
)
def test_a_router_has_a_route_for_each_endpoint(gateway, expected):
    assert endpoint_rules(with_policy(("one", "two"), gateway)) == expected


SPEC = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}}]}
CHAT = decode(ModelService, {"metadata": {"name": "chat", "namespace": "team"}, "spec": SPEC})


def observed_of(found):
    return {key: Observed(each.target, ready=True) for key, each in found.desired.items()}


def with_policy(names, gateway=ROUTED):
    """The second pass: what the first one made is observed."""
    first = composed(names, gateway=gateway)
    required = {"endpoints": tuple(map(endpoint, names)), "gateways": (gateway,)}
    return model_service.compose(ComposeRequest(CHAT, observed_of(first), required))


def test_the_policy_of_single_endpoints_is_there_before_their_routes():
    """Envoy Gateway changes the cluster of a route that gets its policy late, and Envoy then waits for 15 s."""
    first = composed(("one", "two"), gateway=ROUTED)
    assert ("endpoint-policy" in first.desired, endpoint_rules(first)) == (True, [])
    second = with_policy(("one", "two"))
    assert second.desired["endpoint-policy"].target == first.desired["endpoint-policy"].target
    assert "endpoint-policy" not in composed(("one", "two"), gateway=UNROUTED).desired
    required = {"endpoints": (endpoint("one"), endpoint("two")), "gateways": (UNROUTED,)}
    assert "endpoint-policy" not in model_service.compose(ComposeRequest(CHAT, observed_of(second), required)).desired


def test_a_router_at_one_of_two_gateways_has_its_policy_before_there_are_endpoints():
    found = compose({"endpoints": (), "gateways": (ROUTED, UNROUTED_EU)})
    assert (list(found.desired), endpoint_rules(found)) == (["route", "policy", "unserved", "endpoint-policy"], [])


def test_an_object_is_ready_once_it_is_observed():
    first = composed(("one",), gateway=UNROUTED)
    assert {key: each.ready for key, each in first.desired.items()} == dict.fromkeys(first.desired, False)
    second = with_policy(("one",), UNROUTED)
    assert {key: each.ready for key, each in second.desired.items()} == dict.fromkeys(first.desired, True)


def test_routes_of_single_endpoints_stay_while_the_endpoints_are_not_read():
    first = with_policy(("one", "two"))
    for required in ({}, {"gateways": (ROUTED,)}, {"endpoints": (endpoint("one"),)}):
        again = model_service.compose(ComposeRequest(CHAT, observed_of(first), required))
        assert endpoint_rules(again) == endpoint_rules(first)
        assert "endpoint-policy" in again.desired
    left = {"gateways": (ROUTED,), "endpoints": (endpoint("one"),), "endpoint-two": ()}
    again = model_service.compose(ComposeRequest(CHAT, observed_of(first), left))
    assert endpoint_rules(again) == [("modelplane", "one")]


def test_a_service_reads_gateways_and_the_endpoints_of_its_namespace():
    api = "modelplane.ai/v1alpha1"
    assert compose({}).requirements == {
        "gateways": Requirement(api, "InferenceGateway"),
        "endpoints": Requirement(api, "ModelEndpoint", namespace="team"),
    }


def test_endpoints_of_which_none_is_ready_are_counted():
    found = composed((endpoint("one", "False"), endpoint("two", "False")))
    assert resolved(found) == ("False", "NoReadyEndpoints", "0 of 2 endpoints are ready; the address answers 503")
    found = composed((endpoint("one"), endpoint("two", "False")))
    address = "http://192.0.2.1/team/chat"
    assert found.status.gateways == (GatewayRoute(name="default", address=address, accepted=False, endpoints=1),)


def test_a_status_lists_as_many_gateways_as_the_api_allows():
    gateways = tuple({**GATEWAY, "metadata": {"name": f"g{at:03}"}} for at in range(257))
    found = compose({"endpoints": (endpoint("one"),), "gateways": gateways}).status.gateways
    assert [each.name for each in found] == [f"g{at:03}" for at in range(256)]


@pytest.mark.parametrize(
    ("gateways", "address", "expected"),
    [
        ({}, None, ("Unknown", "Unresolved", "the gateways are not read yet")),
        ({}, "http://192.0.2.1/team/chat", ("True", "RouteConfigured", "http://192.0.2.1/team/chat")),
        ({"gateways": ()}, None, ("False", "WaitingForGateway", "no InferenceGateway exists")),
        (
            {"gateways": ({**GATEWAY, "spec": {"serviceSelector": {"matchLabels": {"region": "eu"}}}},)},
            None,
            ("False", "WaitingForGateway", "0 of 1 InferenceGateways serve this service"),
        ),
        (
            {"gateways": ({**GATEWAY, "status": {}},)},
            None,
            ("False", "WaitingForGateway", "InferenceGateway default has no address"),
        ),
        (
            {"gateways": ({**GATEWAY, "status": {}}, EU)},
            None,
            ("True", "RouteConfigured", "http://192.0.2.1/team/chat"),
        ),
        (
            {"gateways": ({"metadata": {"name": "eu"}, "spec": {}}, GATEWAY)},
            None,
            ("True", "RouteConfigured", "http://192.0.2.1/team/chat"),
        ),
    ],
    ids=[
        "not read",
        "not read, and it has an address",
        "none",
        "none that selects it",
        "one without an address",
        "the second has an address",
        "one of two has an address",
    ],
)
def test_a_route_needs_a_gateway_with_an_address(gateways, address, expected):
    required = {"endpoints": (endpoint("one"),), **gateways}
    resource = msgspec.structs.replace(CHAT, status=msgspec.structs.replace(CHAT.status, address=address))
    observed = {"route": Observed(Local(route_to("one"), ReadyWhen.ROUTED), ready=True)}
    condition = model_service.compose(ComposeRequest(resource, observed, required)).conditions[1]
    assert (condition.status.value, condition.reason.value, condition.message) == expected


OTHER_PATH = {**endpoint("two"), "spec": {"url": "https://models.example/openai"}}
OVERFLOW = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}, "overflow": {"inFlightPerEndpoint": 8}}]}
LIMITS = (
    "; on Envoy Gateway two needs the fleet router: its path differs, or the rule is full"
    "; overflow is acted on by the fleet router only"
)


@pytest.mark.parametrize(
    ("gateways", "limits"),
    [((UNROUTED,), LIMITS), ((ROUTED,), ""), ((ROUTED, UNROUTED_EU), LIMITS)],
    ids=["weights", "a router", "a router at one of two gateways"],
)
def test_what_weights_alone_cannot_do_is_said(gateways, limits):
    listed = (endpoint("one"), OTHER_PATH)
    service = decode(ModelService, {"metadata": {"name": "chat", "namespace": "team"}, "spec": OVERFLOW})
    required = {"endpoints": listed, "gateways": gateways}
    observed = observed_of(model_service.compose(ComposeRequest(service, {}, required)))
    condition = model_service.compose(ComposeRequest(service, observed, required)).conditions[1]
    assert (condition.status.value, condition.message) == ("True", f"http://192.0.2.1/team/chat{limits}")


def test_the_first_three_endpoints_that_weights_leave_out_are_named():
    """One group of two acts on overflow."""
    others = [{**endpoint(name), "spec": {"url": "https://models.example/openai"}} for name in ("b", "c", "d", "e")]
    away = [{**each, "metadata": {**each["metadata"], "labels": {"app": "b"}}} for each in others]
    groups = {"endpoints": [*OVERFLOW["endpoints"], {"selector": {"matchLabels": {"app": "b"}}}]}
    service = decode(ModelService, {"metadata": {"name": "chat", "namespace": "team"}, "spec": groups})
    required = {"endpoints": (endpoint("a"), *away), "gateways": (UNROUTED,)}
    observed = observed_of(model_service.compose(ComposeRequest(service, {}, required)))
    condition = model_service.compose(ComposeRequest(service, observed, required)).conditions[1]
    said = LIMITS.replace("two", "b, c, d")
    assert (condition.status.value, condition.message) == ("True", f"http://192.0.2.1/team/chat{said}")
