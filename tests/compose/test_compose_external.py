"""Endpoints outside the fleet: their addresses, credentials, and services over them."""

import base64

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelEndpoint, ModelService
from modelplane.compose import model_endpoint, model_service
from modelplane.compose.contract import ComposeRequest, Local, Observed
from modelplane.compose.external import EndpointRewrite, ExternalAddress, form_of, target_of


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://api.example", ExternalAddress(False, "api.example", 80, "/", by_name=True)),
        ("https://API.example/openai", ExternalAddress(True, "api.example", 443, "/openai", by_name=True)),
        ("https://192.0.2.7:8443/", ExternalAddress(True, "192.0.2.7", 8443, "/", by_name=False)),
        ("http://[2001:db8::1]:81/a", ExternalAddress(False, "2001:db8::1", 81, "/a", by_name=False)),
        ("http://169.254.169.254/latest", None),
        ("http://[::]/", None),
        ("http://a:70000/", None),
        ("http://-a/", None),
        ("ftp://a/", None),
        ("http://a/?q=1", None),
    ],
)
def test_where_a_url_leads(url, expected):
    assert target_of(url) == expected


def endpoint(name="up", url="https://api.example/openai", **spec):
    labels = {"app": "up"}
    item = {"metadata": {"name": name, "namespace": "team", "labels": labels}, "spec": {"url": url, **spec}}
    return decode(ModelEndpoint, item)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (endpoint(), EndpointRewrite("api.example", "/openai")),
        (endpoint(rewritePath="/v2/"), EndpointRewrite("api.example", "/v2")),
        (endpoint(url="http://192.0.2.7"), EndpointRewrite(None, "/")),
        (endpoint(url="http://api.example/x", replica={"name": "r", "clusterName": "c"}), EndpointRewrite()),
    ],
)
def test_what_requests_must_look_like(made, expected):
    assert form_of(made) == expected


AUTH = {"secretRef": {"name": "keys", "key": "api"}}


def secret(text):
    return {"kind": "Secret", "metadata": {"name": "keys"}, "data": {"api": base64.b64encode(text).decode()}}


def composed(made, *secrets, fetched=True):
    required = {"secret": secrets} if fetched else {}
    return model_endpoint.compose(ComposeRequest(resource=made, required=required))


def test_an_https_endpoint_is_checked_by_its_name():
    found = composed(endpoint())
    assert {key: each.target.manifest["spec"] for key, each in found.desired.items()} == {
        "backend": {
            "type": "Endpoints",
            "endpoints": [{"fqdn": {"hostname": "api.example", "port": 443}}],
            "tls": {"wellKnownCACertificates": "System", "sni": "api.example"},
        }
    }
    assert composed(endpoint(url="https://192.0.2.7")).desired["backend"].target.manifest["spec"]["tls"] == {
        "wellKnownCACertificates": "System"
    }


@pytest.mark.parametrize(("scheme", "value"), [("Bearer", b"Bearer k3y"), ("Raw", b"k3y")])
def test_a_credential_is_made_from_the_secret(scheme, value):
    found = composed(endpoint(auth={**AUTH, "scheme": scheme, "header": "Api-Key"}), secret(b"k3y\n"))
    assert list(found.desired) == ["backend", "credential", "filter"]
    made = found.desired["credential"].target.manifest
    assert base64.b64decode(made["data"]["credential"]) == value
    assert found.desired["filter"].target.manifest["spec"]["credentialInjection"] == {
        "header": "Api-Key",
        "overwrite": True,
        "credential": {"valueRef": {"name": made["metadata"]["name"]}},
    }


@pytest.mark.parametrize(
    ("secrets", "fetched", "reason"),
    [
        ((), False, "Unresolved"),
        ((), True, "Invalid"),
        ((secret(b""),), True, "Invalid"),
        ((secret(b"a\nb"),), True, "Invalid"),
        ((secret("ключ".encode()),), True, "Invalid"),
        (({"kind": "Secret", "data": {"api": "ключ"}},), True, "Invalid"),
        (({"kind": "Secret", "data": 7},), True, "Invalid"),
        (({},), True, "Invalid"),
    ],
)
def test_without_a_credential_what_is_there_stays_and_it_says_why(secrets, fetched, reason):
    seen = {"backend": Observed(Local({"kind": "Backend"}), ready=True)}
    required = {"secret": secrets} if fetched else {}
    found = model_endpoint.compose(ComposeRequest(resource=endpoint(auth=AUTH), observed=seen, required=required))
    assert list(found.desired) == ["backend"]
    assert [each.reason.value for each in found.conditions] == [reason]
    assert list(found.requirements) == ["secret"]
    assert "k3y" not in str(found.conditions)


def service(*endpoints, groups=None):
    spec = {"endpoints": groups or [{"selector": {"matchLabels": {"app": "up"}}}]}
    resource = decode(ModelService, {"metadata": {"name": "chat", "namespace": "team"}, "spec": spec})
    manifests = tuple(
        {
            "metadata": {"name": each.metadata.name, "namespace": "team", "labels": dict(each.metadata.labels)},
            "spec": {
                "url": each.spec.url,
                **({"auth": AUTH} if each.spec.auth else {}),
                **({"replica": {"name": "r", "clusterName": "c"}} if each.spec.replica else {}),
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "X"}]},
        }
        for each in endpoints
    )
    return model_service.compose(ComposeRequest(resource=resource, required={"endpoints": manifests, "gateway": ()}))


def rule_of(found):
    (rule,) = found.desired["route"].target.manifest["spec"]["rules"]
    return rule


WITHOUT_REPLICA = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["modelplane-replica"]}}


@pytest.mark.parametrize("url", ["http://192.0.2.7", "https://api.example/openai", "http://[2001:db8::1]:81/a"])
@pytest.mark.parametrize("spec", [{}, {"auth": AUTH}], ids=["plain", "auth"])
def test_the_replica_header_of_a_client_does_not_reach_an_endpoint_outside(url, spec):
    (backend,) = rule_of(service(endpoint(url=url, **spec)))["backendRefs"]
    assert backend["filters"][0] == WITHOUT_REPLICA


def test_the_replica_header_of_a_replica_is_set_and_not_removed():
    url, replica = "http://192.0.2.7", {"name": "r", "clusterName": "c"}
    (backend,) = rule_of(service(endpoint(url=url, replica=replica)))["backendRefs"]
    changed = {"set": [{"name": "modelplane-replica", "value": "team/r"}]}
    assert backend["filters"] == [{"type": "RequestHeaderModifier", "requestHeaderModifier": changed}]


def test_a_route_to_a_provider_names_its_host_and_path_and_adds_its_credential():
    rule = rule_of(service(endpoint(auth=AUTH)))
    (rewrite,) = rule["filters"]
    assert rewrite["urlRewrite"] == {
        "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/openai"},
        "hostname": "api.example",
    }
    (backend,) = rule["backendRefs"]
    assert backend["filters"] == [
        WITHOUT_REPLICA,
        {
            "type": "ExtensionRef",
            "extensionRef": {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": "up"},
        },
    ]


def test_endpoints_that_want_other_requests_are_left_out_and_named():
    replicas = [endpoint(name, "http://192.0.2.1", replica={"name": "r", "clusterName": "c"}) for name in ("a", "b")]
    found = service(*replicas, endpoint("z"))
    assert [each["name"] for each in rule_of(found)["backendRefs"]] == ["a", "b"]
    (problem,) = [each for each in found.conditions if each.status.value == "False"]
    assert (problem.type.value, problem.reason.value) == ("RouteReady", "NotSupported")
    assert problem.message.startswith("z: host or path differs")
