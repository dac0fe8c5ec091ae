"""The fleet's front door."""

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.inference_gateway import compose


def composed(name, **spec):
    resource = decode(InferenceGateway, {"metadata": {"name": name}, "spec": spec})
    return compose(ComposeRequest(resource=resource, now=0.0))


def test_the_default_one_is_a_gateway_on_the_control_plane():
    found = composed("default", hostname="models.example")
    gateway = found.desired["gateway"].target.manifest
    assert (gateway["metadata"]["name"], gateway["metadata"]["namespace"]) == ("modelplane", "modelplane-system")
    (listener,) = gateway["spec"]["listeners"]
    assert (listener["protocol"], listener["hostname"]) == ("HTTP", "models.example")
    assert [(c.status.value, c.reason.value) for c in found.conditions] == [("False", "WaitingForGateway")]


def test_another_one_makes_nothing_and_says_so():
    found = composed("other")
    assert found.desired == {}
    (condition,) = found.conditions
    assert (condition.status.value, condition.reason.value) == ("False", "NotSupported")
    assert "other serves nothing" in condition.message
    assert found.ready.status.value == "False"
