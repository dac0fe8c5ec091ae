"""The fleet router as an InferenceGateway composes it, and what stays of it while inputs are missing."""

import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.contract import ComposeRequest, Local, Observed, Requirement
from modelplane.compose.images import ReleaseImages
from modelplane.compose.inference_gateway import compose
from modelplane.compose.service_plan import read_plan
from tests.compose.hop import observed, pem, requests

READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t"}]}
API = "modelplane.ai/v1alpha1"
AUTH = {
    "method": "APIKey",
    "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}},
    "callers": [{"name": "ada", "services": ["chat/helper"]}],
}


def service(name, namespace="chat", labels=None):
    spec = {"endpoints": [{"name": "main", "selector": {"matchLabels": {"app": "qwen"}}}]}
    return {
        "apiVersion": API,
        "kind": "ModelService",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": spec,
    }


def endpoint(name, namespace="chat", status=READY):
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "qwen"}}
    return {
        "apiVersion": API,
        "kind": "ModelEndpoint",
        "metadata": metadata,
        "spec": {"origin": "https://api.example"},
        "status": status,
    }


def composed(required, observed=None, **spec):
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": spec})
    return compose(ComposeRequest(resource=resource, observed=observed or {}, required=required, now=0.0))


def plans_of(found):
    data = found.desired["router-plans-0"].target.manifest["data"]
    callers = json.loads(data["callers.json"])
    return callers, {name: read_plan(text) for name, text in data.items() if name != "callers.json"}


ROUTER = {"image": "example.org/modelplane:1", "replicas": 3}
LISTED = {
    "services": (service("helper"), service("other", "team")),
    "endpoints": (endpoint("a"), endpoint("b", "team")),
}


@pytest.mark.parametrize(
    ("spec", "embedded", "image"),
    [
        ({}, False, "pushed.example/modelplane-router:v9"),
        ({"router": {}}, False, "pushed.example/modelplane-router:v9"),
        ({"router": ROUTER}, False, "example.org/modelplane:1"),
        ({"router": {"replicas": 0}}, False, None),
        ({"router": ROUTER}, True, None),
        ({}, True, None),
    ],
    ids=["the default", "by word", "an image", "no copies", "the embedded plane runs its own", "embedded default"],
)
def test_which_router_a_gateway_has(spec, embedded, image):
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": spec})
    images = ReleaseImages("pushed.example", version="9")
    found = compose(ComposeRequest(resource, images=images, embedded=embedded))
    if image is None:
        assert (set(found.desired), found.requirements) == ({"gateway"}, {})
        return
    (container,) = found.desired["router"].target.manifest["spec"]["template"]["spec"]["containers"]
    assert (container["image"], set(found.requirements)) == (image, {"services", "endpoints"})


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ({}, {"services": "ModelService", "endpoints": "ModelEndpoint"}),
        (
            {"mutualTLS": {}},
            {"services": "ModelService", "endpoints": "ModelEndpoint", "clusters": "InferenceCluster"},
        ),
    ],
)
def test_it_reads_the_services_and_endpoints_of_all_namespaces(spec, kinds):
    assert composed({}, router=ROUTER, **spec).requirements == {
        key: Requirement(API, kind) for key, kind in kinds.items()
    }


def test_the_plans_of_its_services_and_what_its_callers_may_do():
    secret = {"metadata": {"name": "keys"}, "data": {"ada": "YQ==", "bob": "Yg=="}}
    found = composed({**LISTED, "secrets": (secret,)}, router=ROUTER, auth=AUTH)
    callers, plans = plans_of(found)
    assert callers == {"callers": [{"name": "ada", "services": ["chat/helper"]}, {"name": "bob"}], "checksKeys": False}
    assert {name: [each.key for each in plan.endpoints] for name, plan in plans.items()} == {
        "chat.helper.json": ["chat/a"],
        "team.other.json": ["team/b"],
    }
    deployment = found.desired["router"].target.manifest
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.org/modelplane:1"
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert found.desired["router-extension"].target.manifest["spec"]["extProc"][0]["failOpen"] is False
    seen = {"router": Observed(found.desired["router"].target, ready=True)}
    again = composed({**LISTED, "secrets": (secret,)}, seen, router=ROUTER, auth=AUTH)
    assert [each.desired["router"].ready for each in (found, again)] == [False, True]


def test_with_mutual_tls_it_has_the_gateway_s_certificate_and_the_cas_of_clusters():
    clusters = [{"status": {"gateway": {"caCertificate": pem(name)}}} for name in ("west", "east")]
    inputs = {**LISTED, "clusters": (*clusters, {"status": {}})}
    spec = {"router": ROUTER, "mutualTLS": {}}
    first = composed(inputs, **spec)
    assert "hop" not in [
        each["name"] for each in first.desired["router"].target.manifest["spec"]["template"]["spec"]["volumes"]
    ]
    seen = observed(first.desired)
    found = composed({**inputs, "hop-ca-request": requests(seen)}, seen, **spec)
    assert found.desired["router-plans-0"].target.manifest["data"]["clusters.pem"] == f"{pem('east')}\n{pem('west')}"
    pod = found.desired["router"].target.manifest["spec"]["template"]["spec"]
    secret = found.desired["gateway"].target.manifest["spec"]["tls"]["backend"]["clientCertificateRef"]["name"]
    assert pod["volumes"][1] == {"name": "hop", "secret": {"secretName": secret}}
    assert pod["containers"][0]["args"][-2:] == ["--hop-identity", "/etc/modelplane/hop"]
    unread = composed({**LISTED, "hop-ca-request": requests(seen)}, observed(found.desired), **spec)
    assert unread.desired["router-plans-0"].target.manifest["data"]["clusters.pem"] == f"{pem('east')}\n{pem('west')}"


def test_it_knows_the_services_that_its_gateway_serves_and_no_others():
    listed = {**LISTED, "services": (service("helper", labels={"region": "eu"}), service("other", "team"))}
    found = composed(listed, router=ROUTER, serviceSelector={"matchLabels": {"region": "eu"}})
    assert list(plans_of(found)[1]) == ["chat.helper.json"]


def test_what_is_not_read_yet_takes_nothing_away():
    first = composed(LISTED, router=ROUTER)
    observed = {key: Observed(each.target, ready=True) for key, each in first.desired.items()}
    for required in ({}, {"services": ()}, {"endpoints": ()}):
        again = composed(required, observed, router=ROUTER)
        assert {key: each.target for key, each in again.desired.items()} == {
            key: each.target for key, each in first.desired.items()
        }


def test_its_plans_follow_once_the_keys_of_its_callers_are_read():
    secret = {"metadata": {"name": "keys"}, "data": {"ada": "YQ=="}}
    first = composed({**LISTED, "secrets": (secret,)}, router=ROUTER, auth=AUTH)
    observed = {key: Observed(Local(each.target.manifest), ready=True) for key, each in first.desired.items()}
    fewer = {**LISTED, "services": (service("helper"),)}
    unread = composed(fewer, observed, router=ROUTER, auth=AUTH)
    read = composed({**fewer, "secrets": (secret,)}, observed, router=ROUTER, auth=AUTH)
    assert [list(plans_of(found)[1]) for found in (unread, read)] == [
        ["chat.helper.json", "team.other.json"],
        ["chat.helper.json"],
    ]


def test_an_endpoint_that_does_not_say_whether_it_is_ready_stays_in_the_plan():
    first = composed(LISTED, router=ROUTER)
    observed = {key: Observed(Local(each.target.manifest), ready=True) for key, each in first.desired.items()}
    silent = {**LISTED, "endpoints": (endpoint("a", status={}), endpoint("b", "team"))}
    down = {"conditions": [{**READY["conditions"][0], "status": "False"}]}
    failing = composed({**LISTED, "endpoints": (endpoint("a", status=down), endpoint("b", "team"))}, router=ROUTER)
    failed = {key: Observed(Local(each.target.manifest), ready=True) for key, each in failing.desired.items()}
    for seen, ready in ((observed, True), ({}, False), (failed, False)):
        (only,) = plans_of(composed(silent, seen, router=ROUTER))[1]["chat.helper.json"].endpoints
        assert only.ready is ready


def test_every_object_is_what_its_definition_allows(problems):
    found = composed(LISTED, router=ROUTER)
    assert [each for item in found.desired.values() for each in problems(item.target.manifest)] == []


GATEWAY = Observed(Local({"status": {"addresses": [{"value": "192.0.2.1"}]}}), ready=True)
REFUSED = "ExtProc: no ready endpoints for the related Service modelplane-system/modelplane-router."


def condition_with(policy_status, **spec):
    """GatewayReady with what Envoy Gateway says of the policy that calls the router."""
    told = {"type": "Accepted", "status": policy_status, "message": REFUSED}
    policy = {"status": {"ancestors": [{"conditions": [told]}]}}
    observed = {"gateway": GATEWAY, "router-extension": Observed(Local(policy), ready=True)}
    (found,) = composed({**LISTED, "secrets": SECRETS}, observed, **spec).conditions
    return found.status, found.reason.value, found.message


SECRETS = ({"metadata": {"name": "keys"}, "data": {"ada": "YQ=="}},)


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [
        pytest.param("True", {"router": ROUTER}, ("True", "GatewayRunning", "192.0.2.1"), id="called"),
        pytest.param(
            "False",
            {"router": ROUTER},
            (
                "True",
                "GatewayRunning",
                f"192.0.2.1; the fleet router is not called, and limits do not hold: {REFUSED}",
            ),
            id="requests go on without it",
        ),
        pytest.param(
            "False",
            {"router": ROUTER, "auth": AUTH},
            ("False", "WaitingForGateway", f"no request is served: the fleet router is not called: {REFUSED}"),
            id="callers may not call every service",
        ),
        pytest.param(
            "False", {"router": {"replicas": 0}}, ("True", "GatewayRunning", "192.0.2.1"), id="it has none any more"
        ),
    ],
)
def test_a_router_that_the_gateway_does_not_call_shows_in_its_condition(status, spec, expected):
    assert condition_with(status, **spec) == expected
