"""Which gateways serve a service, and which are in doubt."""

from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelService
from modelplane.compose.contract import ComposeRequest, Observed, Remote
from modelplane.compose.service_gateways import (
    gateway_requirements,
    remote_gateways,
    serving_gateways,
    undecided_gateways,
    unreadable_gateways,
)
from tests.support.cluster_gateways import gateway

SERVICE = decode(
    ModelService,
    {"metadata": {"name": "chat", "namespace": "team", "labels": {"region": "eu"}}, "spec": {"endpoints": []}},
)
SEEN = Observed(Remote("fra-a", {}), ready=True)
EU, US = gateway("eu", labels={"region": "eu"}), gateway("us", labels={"region": "us"})
DEFAULT, GARBLED = gateway("default", None), {**gateway("bad"), "spec": 7}


def request(gateways, *observed, **required):
    given = {} if gateways is None else {"gateways": tuple(gateways)}
    found = {key.replace("_", "-"): value for key, value in required.items()}
    return ComposeRequest(SERVICE, {f"{name}/route": SEEN for name in observed}, {**given, **found})


def test_a_gateway_that_is_listed_is_not_asked_for_by_name():
    assert list(gateway_requirements(request([EU], "eu"))) == ["gateways"]
    assert list(gateway_requirements(request([], "eu"))) == ["gateways", "gateway-eu"]


def test_what_a_route_on_a_cluster_names_is_not_beside_the_control_plane():
    route = Observed(Remote("fra-a", {"spec": {"parentRefs": [{"name": "modelplane"}]}}), ready=True)
    remote = replace(request([EU]), observed={"eu/route": route})
    assert undecided_gateways(remote) == []
    beside = replace(request([EU]), observed={"route": route})
    assert undecided_gateways(beside) == ["default"]


@pytest.mark.parametrize(
    ("made", "serving", "remote", "undecided", "unreadable"),
    [
        pytest.param(request(None, "eu"), None, [], ["eu"], [], id="not read"),
        pytest.param(request([EU, US, DEFAULT]), ["default", "eu"], ["eu"], [], [], id="the default one first"),
        pytest.param(request([DEFAULT], "eu"), ["default"], [], ["eu"], [], id="one is missing from the list"),
        pytest.param(request([], "eu", gateway_eu=(EU,)), ["eu"], ["eu"], [], [], id="found by name"),
        pytest.param(request([], "eu", gateway_eu=()), [], [], [], [], id="absent by name"),
        pytest.param(request(None, "eu", gateway_eu=()), None, [], ["eu"], [], id="absent by name, and no list"),
        pytest.param(request([GARBLED], "bad"), [], [], ["bad"], ["bad"], id="one cannot be read"),
        pytest.param(request([US], "us"), [], [], [], [], id="one that no longer selects it"),
    ],
)
def test_the_gateways_of_a_service(made, serving, remote, undecided, unreadable):
    found = serving_gateways(made)
    assert (None if found is None else [each.metadata.name for each in found]) == serving
    assert list(remote_gateways(made)) == remote
    assert undecided_gateways(made) == undecided
    assert unreadable_gateways(made) == unreadable
