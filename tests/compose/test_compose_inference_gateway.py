"""The fleet's front door."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen
from modelplane.compose.inference_gateway import compose


def composed(name, seen=None, **spec):
    resource = decode(InferenceGateway, {"metadata": {"name": name}, "spec": spec})
    observed = {} if seen is None else {"gateway": Observed(Local(seen, ReadyWhen.ADDRESSED), ready=True)}
    return compose(ComposeRequest(resource=resource, observed=observed, now=0.0))


def test_the_default_one_is_a_gateway_on_the_control_plane():
    found = composed("default", hostname="models.example")
    gateway = found.desired["gateway"].target.manifest
    assert (gateway["metadata"]["name"], gateway["metadata"]["namespace"]) == ("modelplane", "modelplane-system")
    (listener,) = gateway["spec"]["listeners"]
    assert (listener["protocol"], listener["hostname"]) == ("HTTP", "models.example")
    assert [(c.status.value, c.reason.value) for c in found.conditions] == [("False", "WaitingForGateway")]


REFUSED = {"type": "Programmed", "status": "False", "reason": "Invalid", "message": "there is no Secret front"}
PROGRAMMED = {"type": "Programmed", "status": "True", "reason": "Programmed", "message": ""}


@pytest.mark.parametrize(
    ("addresses", "condition", "expected"),
    [
        (["192.0.2.1"], PROGRAMMED, ("True", "192.0.2.1")),
        ([], PROGRAMMED, ("False", "the gateway has no address")),
        ([], REFUSED, ("False", "the gateway has no address: Invalid: there is no Secret front")),
        (
            ["192.0.2.1"],
            REFUSED,
            ("False", "the gateway rejected its latest configuration: Invalid: there is no Secret front"),
        ),
    ],
)
def test_it_says_what_its_gateway_says(addresses, condition, expected):
    status = {"addresses": [{"type": "IPAddress", "value": value} for value in addresses], "conditions": [condition]}
    found = composed("default", {"status": status})
    (told,) = found.conditions
    assert (told.status.value, told.message) == expected
    if told.status.value == "False":
        assert (found.ready.status.value, found.ready.message) == expected


def test_another_one_makes_nothing_and_says_so():
    found = composed("other")
    assert found.desired == {}
    (condition,) = found.conditions
    assert (condition.status.value, condition.reason.value) == ("False", "NotSupported")
    assert "other is unused" in condition.message
    assert found.ready.status.value == "False"
