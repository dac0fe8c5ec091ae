"""The fleet's front door."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import BaseUrls, InferenceGateway, InferenceGatewayStatus
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen, Requirement
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
    assert listener == {
        "name": "http",
        "port": 80,
        "protocol": "HTTP",
        "hostname": "models.example",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }
    assert [(c.status.value, c.reason.value) for c in found.conditions] == [("False", "WaitingForGateway")]
    assert found.status == InferenceGatewayStatus()


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


@pytest.mark.parametrize(
    ("spec", "base"),
    [
        ({}, "http://192.0.2.1"),
        ({"hostname": "models.example"}, "http://models.example"),
        ({"hostname": "models.example", "tls": {"certificateRefs": [{"name": "c"}]}}, "https://models.example"),
        ({"hostname": "*.models.example"}, None),
    ],
    ids=["by its address", "by its name", "with TLS", "each service has a name of its own"],
)
def test_where_clients_call_it(spec, base):
    urls = base and BaseUrls(open_ai=f"{base}/v1", anthropic=f"{base}/anthropic/v1")
    found = composed("default", ADDRESSED, **spec).status
    assert (found.address, found.endpoints) == ("192.0.2.1", urls)


def test_another_one_has_a_gateway_of_its_own():
    names = {composed(name).desired["gateway"].target.manifest["metadata"]["name"] for name in ("default", "eu", "us")}
    assert len(names) == 3


ADDRESSED = {"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}], "conditions": [PROGRAMMED]}}
AUTH = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}}}


def secret(name, **entries):
    return {"metadata": {"name": name}, "stringData": entries}


def kept(secrets, **observed):
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": {"auth": AUTH}})
    seen = {"gateway": Observed(Local(ADDRESSED, ReadyWhen.ADDRESSED), ready=True), **observed}
    required = {} if secrets is None else {"secrets": tuple(secrets)}
    return compose(ComposeRequest(resource=resource, observed=seen, required=required))


def told(found):
    (condition,) = found.conditions
    return condition.status.value, condition.reason.value


def there(found, *keys):
    """Some of what is desired, once it is there."""
    return {key: Observed(found.desired[key].target, ready=True) for key in keys}


def test_callers_keys_come_from_the_secrets_with_the_labels():
    secrets = [secret("b", bob="2"), secret("a", alice="1")]
    found = kept(secrets, **there(kept(secrets), "caller-keys"))
    wanted = Requirement("v1", "Secret", namespace="modelplane-system", labels={"keys": "eu"})
    assert found.requirements["secrets"] == wanted
    assert found.desired["callers"].target.manifest["spec"] == {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "modelplane"}],
        "apiKeyAuth": {
            "credentialRefs": [{"name": found.desired["caller-keys"].target.manifest["metadata"]["name"]}],
            "extractFrom": [{"headers": ["Authorization"]}, {"headers": ["x-api-key"]}],
            "forwardClientIDHeader": "x-modelplane-caller",
            "sanitize": True,
        },
    }
    assert (found.status.callers, told(found)) == (2, ("True", "GatewayRunning"))
    again = kept(secrets, **there(found, "caller-keys", "callers"))
    assert [each.desired["callers"].ready for each in (found, again)] == [False, True]
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": {"auth": AUTH}})
    assert compose(ComposeRequest(resource, required={"secrets": tuple(secrets)})).status.callers == 2
    assert found.status.endpoints.open_ai == "http://192.0.2.1/v1"


def test_a_key_that_is_given_twice_is_left_out_and_the_others_hold():
    """One key that was given twice made Envoy Gateway refuse the whole policy of a predecessor."""
    found = kept([secret("a", alice="1"), secret("b", bob="1", carl="2", dora="1")])
    assert found.desired["caller-keys"].target.manifest["data"] == {"alice": "MQ==", "carl": "Mg=="}
    assert (found.status.callers, told(found)) == (2, ("False", "CallerKeysInvalid"))
    assert found.conditions[0].message == "Secret b: bob is left out: another caller has its key; and 1 more"
    one = kept([secret("a", alice="1"), secret("b", bob="1")])
    assert one.conditions[0].message == "Secret b: bob is left out: another caller has its key"


def test_without_keys_nobody_may_call():
    none = "spec.auth.apiKey.secretSelector: no Secret in modelplane-system has these labels; nobody may call"
    unread = "spec.auth.apiKey: the Secrets are not read yet; no new keys are taken"
    for secrets, expected, words in (
        ((), ("False", "CallerKeysMissing"), none),
        (None, ("Unknown", "Unresolved"), unread),
    ):
        found = kept(secrets)
        spec = found.desired["callers"].target.manifest["spec"]
        assert (spec["authorization"], told(found)) == ({"defaultAction": "Deny"}, expected)
        assert found.conditions[0].message == words


def test_keys_that_are_not_read_yet_change_nothing():
    secrets = [secret("a", alice="1")]
    serving = kept(secrets, **there(kept(secrets), "caller-keys"))
    found = kept(None, **there(serving, "callers", "caller-keys"))
    assert [found.desired[key].target for key in ("callers", "caller-keys")] == [
        serving.desired[key].target for key in ("callers", "caller-keys")
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"reason": "Invalid", "message": "duplicate"}, "duplicate"),
        ({"reason": "Invalid"}, "Invalid"),
        ({}, "not accepted"),
    ],
)
def test_it_is_not_ready_while_the_gateway_refuses_the_keys(said, why):
    conditions = [{"type": "Accepted", "status": "False", **said}]
    refused = {"status": {"ancestors": [{"conditions": conditions}]}}
    found = kept([secret("a", alice="1")], callers=Observed(Local(refused), ready=True))
    assert found.conditions[0].message == f"the gateway refuses the keys: {why}"


def test_the_objects_are_what_their_definitions_allow(problems):
    for found in (kept([secret("a", alice="1")]), kept(())):
        assert {"gateway", "callers", "router"} < set(found.desired)
        assert [problem for each in found.desired.values() for problem in problems(each.target.manifest)] == []


@pytest.mark.parametrize(
    ("tls", "names"),
    [({"secretRef": {"name": "front"}}, ["front"]), ({"certificateRefs": [{"name": "a"}, {"name": "b"}]}, ["a", "b"])],
)
def test_certificates_make_it_listen_for_https_alone(tls, names):
    (listener,) = composed("default", tls=tls).desired["gateway"].target.manifest["spec"]["listeners"]
    assert (listener["name"], listener["port"], listener["protocol"]) == ("https", 443, "HTTPS")
    assert listener["tls"] == {"certificateRefs": [{"name": name} for name in names]}
