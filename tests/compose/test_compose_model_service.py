"""When a service counts as ready: its route leads to somebody, and the gateway says that it is in force."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelService
from modelplane.compose import model_service
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen

GATEWAY = {"metadata": {"name": "default"}, "spec": {}, "status": {"address": "192.0.2.1"}}


def endpoint(name):
    return {
        "metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}},
        "spec": {"url": "http://192.0.2.9"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "X"}]},
    }


def composed(endpoints, seen=None, *, ready=True, gateway=GATEWAY):
    spec = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}}]}
    service = decode(ModelService, {"metadata": {"name": "chat", "namespace": "team"}, "spec": spec})
    observed = {} if seen is None else {"route": Observed(Local(seen, ReadyWhen.ROUTED), ready)}
    required = {"endpoints": tuple(map(endpoint, endpoints)), "gateway": (gateway,)}
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
