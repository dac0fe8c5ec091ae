"""Endpoints outside the fleet: their addresses, credentials, and services over them."""

import base64

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelEndpoint, ModelEndpointStatus, ModelService
from modelplane.compose import model_endpoint, model_service
from modelplane.compose.contract import ComposeRequest, Local, Observed, Requirement
from modelplane.compose.external import ExternalAddress, target_of
from modelplane.compose.provider_models import FetchedList, ListRequest
from tests.compose.hop import pem


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://api.example", ExternalAddress(False, "api.example", 80, by_name=True)),
        ("https://API.example/openai", ExternalAddress(True, "api.example", 443, "/openai", by_name=True)),
        ("https://192.0.2.7:8443/", ExternalAddress(True, "192.0.2.7", 8443, "/", by_name=False)),
        ("http://[2001:db8::1]:81/a", ExternalAddress(False, "2001:db8::1", 81, "/a", by_name=False)),
        ("http://192.0.2.7:1", ExternalAddress(False, "192.0.2.7", 1, by_name=False)),
        ("http://192.0.2.7:65535", ExternalAddress(False, "192.0.2.7", 65535, by_name=False)),
        ("http://a:0/", None),
        ("http://a:65536/", None),
        ("http://-a/", None),
        ("ftp://a/", None),
        ("http://a/?q=1", None),
        ("http://a/\n", None),
        ("http://a/\r\nx-evil: 1", None),
    ],
)
def test_where_a_url_leads(url, expected):
    assert target_of(url) == expected


def endpoint(name="up", url="https://api.example/openai", status=None, **spec):
    labels = {"app": "up"}
    address = {"url": url} if url else {}
    item = {"metadata": {"name": name, "namespace": "team", "labels": labels}, "spec": {**address, **spec}}
    return decode(ModelEndpoint, {**item, "status": status or {}})


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (endpoint(url="ftp://a/"), "spec.url: 'ftp://a/' is not an http or https URL"),
        (endpoint(url=None, origin="a"), "spec.origin: 'a' is not an http or https URL"),
    ],
)
def test_an_endpoint_without_an_address_says_what_is_wrong_and_keeps_what_is_there(item, message):
    seen = {"backend": Observed(Local({"metadata": {"name": "up"}}), ready=True)}
    result = model_endpoint.compose(ComposeRequest(item, seen))
    (condition,) = [each for each in result.conditions if each.type == "RouteReady"]
    assert (condition.status.value, condition.reason, condition.message) == ("False", "Invalid", message)
    assert result.desired.keys() == seen.keys()


AUTH = {"secretRef": {"name": "keys", "key": "api"}}


def secret(text):
    return {"kind": "Secret", "metadata": {"name": "keys"}, "data": {"api": base64.b64encode(text).decode()}}


def composed(made, *secrets, fetched=True, allow=(), observed=None, **inputs):
    gateway = {"metadata": {"name": "default"}, "spec": {"outbound": {"allow": list(allow)}}}
    required = {"gateway": (gateway,), **({"secret": secrets} if fetched else {})}
    return model_endpoint.compose(ComposeRequest(made, observed or {}, inputs.pop("required", required), **inputs))


def told(result):
    return [(each.status.value, each.reason.value, each.message) for each in result.conditions]


LOOPBACK = "spec.url: 127.0.0.1, a loopback address; InferenceGateway default may allow it in spec.outbound.allow"


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ((), ("False", "OutboundRefused", LOOPBACK)),
        (("10.0.0.0/8", "api.corp"), ("False", "OutboundRefused", LOOPBACK)),
        (("127.0.0.0/8",), ("False", "RoutePending", "the Backend is not observed yet")),
        (
            ("127.0.0.1:80",),
            (
                "False",
                "Invalid",
                "InferenceGateway default: spec.outbound.allow: '127.0.0.1:80' is neither a network nor a host name",
            ),
        ),
    ],
)
def test_what_a_user_names_is_checked_by_the_rule_of_the_gateway(allow, expected):
    found = composed(endpoint(url="http://127.0.0.1:8000/v1"), allow=allow)
    assert told(found) == [expected]
    assert bool(found.desired) == (expected[1] == "RoutePending")


def test_without_a_gateway_only_public_hosts_are_allowed():
    assert told(composed(endpoint(), required={"gateway": ()}))[0][1] == "RoutePending"
    assert told(composed(endpoint(url="http://10.0.0.1"), required={"gateway": ()}))[0][1] == "OutboundRefused"


def as_observed(result):
    return {key: Observed(Local(each.target.manifest), ready=True) for key, each in result.desired.items()}


MAY_ALLOW = "InferenceGateway default may allow it in spec.outbound.allow"
METADATA = "api.example resolves to 169.254.169.254, a metadata service address"
BEFORE = {"origin": "https://api.example", "addresses": ["93.184.215.14"]}
PENDING = ("False", "RoutePending", "the Backend is not observed yet")


@pytest.mark.parametrize(
    ("resolved", "status", "expected", "called", "requeue_s"),
    [
        pytest.param(None, {}, ("Unknown", "Unresolved", "spec.url: api.example is looked up"), (), 1.0, id="new"),
        pytest.param(
            (), {}, ("False", "HostNotFound", "spec.url: api.example does not resolve"), (), 30.0, id="no address"
        ),
        pytest.param(("8.8.8.8",), {}, PENDING, ("8.8.8.8",), 30.0, id="public"),
        pytest.param(("8.8.8.8",), BEFORE, PENDING, ("8.8.8.8",), 30.0, id="moved"),
        pytest.param(("8.8.8.8", "169.254.169.254"), {}, PENDING, ("8.8.8.8",), 30.0, id="one is left out"),
        pytest.param(
            ("169.254.169.254",),
            BEFORE,
            ("False", "OutboundRefused", f"spec.url: {METADATA}; {MAY_ALLOW}"),
            (),
            30.0,
            id="rebound to a metadata service",
        ),
        pytest.param(None, BEFORE, PENDING, ("93.184.215.14",), 30.0, id="late, with addresses of before"),
        pytest.param((), BEFORE, PENDING, ("93.184.215.14",), 30.0, id="failed, with addresses of before"),
        pytest.param(
            (),
            {**BEFORE, "addresses": ["10.0.0.1"]},
            ("False", "OutboundRefused", f"spec.url: api.example resolves to 10.0.0.1, a private address; {MAY_ALLOW}"),
            (),
            30.0,
            id="those of before are no longer allowed",
        ),
        pytest.param(
            (),
            {**BEFORE, "origin": "https://other.example"},
            ("False", "HostNotFound", "spec.url: api.example does not resolve"),
            (),
            30.0,
            id="those of before are of another host",
        ),
    ],
)
def test_what_is_checked_is_what_is_called(resolved, status, expected, called, requeue_s):
    found = composed(endpoint(status=status), resolve=lambda host: resolved if host == "api.example" else None)
    assert (told(found), found.requeue_after_s) == ([expected], requeue_s)
    backends = [each.target.manifest["spec"] for each in found.desired.values()]
    assert backends == ([on_addresses(*called)] if called else [])
    waits = expected[1] == "Unresolved"
    assert found.status == (None if waits else ModelEndpointStatus(origin="https://api.example", addresses=called))


def on_addresses(*addresses):
    return {
        "type": "Endpoints",
        "endpoints": [{"ip": {"address": address, "port": 443}} for address in addresses],
        "tls": {"wellKnownCACertificates": "System", "sni": "api.example"},
    }


def test_the_addresses_of_a_name_are_what_the_api_takes(problems):
    made = composed(endpoint(), resolve=lambda _: ("8.8.8.8", "2606:4700::1111"))
    assert problems(made.desired["backend"].target.manifest) == []


@pytest.mark.parametrize(
    ("resolved", "reason", "message"),
    [
        (("93.184.215.14",), "RouteConfigured", ""),
        (None, "RouteConfigured", "spec.url: api.example does not resolve; requests go to the addresses of before"),
        (
            ("93.184.215.14", "169.254.169.254"),
            "OutboundPartlyRefused",
            f"spec.url: {METADATA}, which gets no requests; {MAY_ALLOW}",
        ),
    ],
)
def test_an_endpoint_that_serves_says_which_addresses_do_not(resolved, reason, message):
    made = endpoint(status=BEFORE)
    serving = as_observed(composed(made, resolve=lambda _: ("93.184.215.14",)))
    found = composed(made, observed=serving, resolve=lambda _: resolved)
    assert told(found) == [("True", reason, message)]
    assert found.desired["backend"].target.manifest["spec"] == on_addresses("93.184.215.14")


def test_a_provider_that_is_not_reached_keeps_its_requests_and_says_so():
    made, gone = endpoint(status=BEFORE), FetchedList(unreached="https://api.example/v1/models: timed out")
    resolve = {"resolve": lambda _: ("93.184.215.14",)}
    serving = as_observed(composed(made, **resolve))
    found = composed(made, observed=serving, **resolve, list_models=lambda _: gone)
    words = "the control plane does not reach it, and requests go there all the same"
    assert told(found) == [("True", "ProviderNotReached", f"spec.url: {words}: {gone.unreached}")]
    assert found.desired["backend"].target.manifest["spec"] == on_addresses("93.184.215.14")


def test_an_endpoint_that_serves_stays_while_inputs_are_missing_and_stops_when_it_is_refused():
    made = endpoint(status=BEFORE)
    serving = as_observed(composed(made, resolve=lambda _: ("93.184.215.14",)))
    for inputs in ({"required": {}}, {}):
        found = composed(made, observed=serving, resolve=lambda _: None, **inputs)
        assert (list(found.desired), found.ready.status.value) == (["backend"], "True")
        assert found.status.addresses == ("93.184.215.14",)
    found = composed(made, observed=serving, resolve=lambda _: ("10.0.0.1",))
    assert found.desired["backend"].target == serving["backend"].target
    assert (found.conditions[0].reason.value, found.ready.status.value) == ("OutboundRefused", "False")


def test_a_backend_by_name_of_an_older_version_stays_until_the_name_is_resolved():
    serving = as_observed(composed(endpoint()))
    found = composed(endpoint(), observed=serving, resolve=lambda _: None)
    assert (found.desired["backend"].target, found.ready.status.value) == (serving["backend"].target, "True")
    found = composed(endpoint(), observed=serving, resolve=lambda _: ("8.8.8.8",))
    assert found.desired["backend"].target.manifest["spec"] == on_addresses("8.8.8.8")
    found = composed(endpoint(), observed=serving, resolve=lambda _: ())
    assert (found.conditions[0].reason.value, found.ready.status.value) == ("HostNotFound", "False")


def test_a_replica_behind_a_name_is_resolved_and_its_backend_has_the_name():
    made = endpoint(url="http://lb.corp", **REPLICA)
    vouched = {"replica": ({"status": {"address": "http://lb.corp"}},)}
    found = composed(made, required=vouched, resolve=lambda _: ("10.0.0.7",))
    assert found.desired["backend"].target.manifest["spec"]["endpoints"] == [
        {"fqdn": {"hostname": "lb.corp", "port": 80}}
    ]
    assert found.status.addresses == ("10.0.0.7",)
    found = composed(made, required=vouched, resolve=lambda _: ("169.254.169.254",))
    refusal = "spec.url: lb.corp resolves to 169.254.169.254, a metadata service address"
    assert told(found) == [("False", "OutboundRefused", refusal)]


REPLICA = {"replica": {"name": "r", "clusterName": "c"}}


UNVOUCHED = ("False", "Invalid", "spec.url: ModelReplica r does not report this address")


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (None, ("Unknown", "Unresolved", "spec.replica: the ModelReplica is not read yet")),
        ((), UNVOUCHED),
        (({"status": {"address": "http://10.0.0.8"}},), UNVOUCHED),
        (({"status": {"address": "http://10.0.0.7"}},), PENDING),
    ],
)
def test_an_endpoint_of_a_replica_needs_the_word_of_the_replica(replicas, expected):
    required = {} if replicas is None else {"replica": replicas}
    found = composed(endpoint(url="http://10.0.0.7", **REPLICA), required=required)
    assert told(found) == [expected]
    assert list(found.requirements) == ["replica"]
    assert found.requeue_after_s == (None if expected == PENDING else 2.0)


def test_a_replica_is_called_without_a_credential():
    made = endpoint(url="http://10.0.0.7", auth=AUTH, **REPLICA)
    found = composed(made, required={"replica": ({"status": {"address": "http://10.0.0.7"}},)})
    assert list(found.desired) == ["backend"]


def test_an_endpoint_of_a_replica_that_serves_outlives_the_replica_s_status():
    made = endpoint(url="http://10.0.0.7", **REPLICA)
    serving = as_observed(composed(made, required={"replica": ({"status": {"address": "http://10.0.0.7"}},)}))
    for replicas in ((), ({"status": {}},)):
        assert composed(made, observed=serving, required={"replica": replicas}).ready.status.value == "True"
    moved = composed(endpoint(url="http://10.0.0.9", **REPLICA), observed=serving, required={"replica": ()})
    assert (moved.ready.status.value, moved.desired["backend"].target) == ("False", serving["backend"].target)


SECURE = "https://10.0.0.7"
VOUCHED = {
    "replica": ({"status": {"address": SECURE}},),
    "cluster": ({"status": {"gateway": {"address": "10.0.0.7", "caCertificate": pem("east")}}},),
}


def test_a_replica_behind_mutual_tls_is_checked_by_the_ca_of_its_cluster(problems):
    found = composed(endpoint(url=SECURE, **REPLICA), required=VOUCHED)
    backend, authority = (found.desired[key].target.manifest for key in ("backend", "authority"))
    assert [wrong for item in (backend, authority) for wrong in problems(item)] == []
    assert authority["data"] == {"ca.crt": pem("east")}
    assert backend["spec"] == {
        "type": "Endpoints",
        "endpoints": [{"ip": {"address": "10.0.0.7", "port": 443}}],
        "tls": {
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": authority["metadata"]["name"]}],
            "sni": "c.inference-gateway.modelplane.internal",
        },
    }
    assert found.requirements["cluster"].name == "c"


def test_a_replica_that_moves_to_https_is_called_as_before_until_the_ca_is_there():
    plain = as_observed(
        composed(
            endpoint(url="http://10.0.0.7", **REPLICA),
            required={"replica": ({"status": {"address": "http://10.0.0.7"}},)},
        )
    )
    unread = composed(endpoint(url=SECURE, **REPLICA), observed=plain, required={"replica": VOUCHED["replica"]})
    assert told(unread) == [("Unknown", "Unresolved", "spec.replica: the CA of the cluster's gateway is not read yet")]
    assert unread.desired["backend"].target == plain["backend"].target
    first = composed(endpoint(url=SECURE, **REPLICA), observed=plain, required=VOUCHED)
    assert (list(first.desired), first.desired["backend"].target) == (["backend", "authority"], plain["backend"].target)
    assert first.ready.status.value == "True"
    second = composed(endpoint(url=SECURE, **REPLICA), observed=as_observed(first), required=VOUCHED)
    assert "tls" in second.desired["backend"].target.manifest["spec"]


def test_a_replica_that_moves_back_to_http_keeps_the_ca_while_its_backend_names_it():
    secured = as_observed(composed(endpoint(url=SECURE, **REPLICA), required=VOUCHED))
    plain = endpoint(url="http://10.0.0.7", **REPLICA)
    vouched = {"replica": ({"status": {"address": "http://10.0.0.7"}},)}
    first = composed(plain, observed=secured, required=vouched)
    assert first.desired["authority"].target == secured["authority"].target
    assert "tls" not in first.desired["backend"].target.manifest["spec"]
    second = composed(plain, observed=as_observed(first), required=vouched)
    assert list(second.desired) == ["backend"]


def test_a_ca_that_is_renewed_is_written_at_once():
    made = endpoint(url=SECURE, **REPLICA)
    serving = as_observed(composed(made, required=VOUCHED))
    renewed = {**VOUCHED, "cluster": ({"status": {"gateway": {"address": "10.0.0.7", "caCertificate": pem("new")}}},)}
    found = composed(made, observed=serving, required=renewed)
    assert found.desired["authority"].target.manifest["data"] == {"ca.crt": pem("new")}


def test_an_https_endpoint_is_checked_by_its_name():
    found = composed(endpoint())
    assert {key: each.target.manifest["spec"] for key, each in found.desired.items()} == {
        "backend": {
            "type": "Endpoints",
            "endpoints": [{"fqdn": {"hostname": "api.example", "port": 443}}],
            "tls": {"wellKnownCACertificates": "System", "sni": "api.example"},
        }
    }
    assert composed(endpoint(url="https://93.184.215.14")).desired["backend"].target.manifest["spec"]["tls"] == {
        "wellKnownCACertificates": "System"
    }


@pytest.mark.parametrize(("scheme", "value"), [("Bearer", b"Bearer k3y"), ("Raw", b"k3y")])
def test_a_credential_is_made_from_the_secret(scheme, value):
    found = composed(endpoint(auth={**AUTH, "scheme": scheme, "header": "Api-Key"}), secret(b"k3y\n"))
    assert list(found.desired) == ["backend", "credential", "filter"]
    credential, added = (found.desired[key].target.manifest for key in ("credential", "filter"))
    name = credential["metadata"]["name"]
    assert credential == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "team"},
        "type": "Opaque",
        "data": {"credential": base64.b64encode(value).decode()},
    }
    injection = {"header": "Api-Key", "overwrite": True, "credential": {"valueRef": {"name": name}}}
    assert added == {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "HTTPRouteFilter",
        "metadata": {"name": "up", "namespace": "team"},
        "spec": {"credentialInjection": injection},
    }


def test_an_endpoint_is_ready_when_its_credential_is_there_too():
    made = endpoint(auth=AUTH)
    first = composed(made, secret(b"k3y"))
    backend = {"backend": as_observed(first)["backend"]}
    assert composed(made, secret(b"k3y"), observed=backend).ready.status.value == "False"
    assert composed(made, secret(b"k3y"), observed=as_observed(first)).ready.status.value == "True"


def test_what_comes_first_is_waited_for():
    found = composed(endpoint(), resolve=lambda _: ("93.184.215.14",), list_models=lambda _: None)
    assert found.requeue_after_s == 1.0


@pytest.mark.parametrize(
    ("url", "resolve"),
    [("https://93.184.215.14", lambda _: None), ("https://api.example", None)],
    ids=["no name", "a host that looks up nothing"],
)
def test_an_address_that_is_not_looked_up_is_not_checked_again(url, resolve):
    found = composed(endpoint(url=url), resolve=resolve)
    assert (told(found), found.requeue_after_s) == ([PENDING], None)


def test_a_provider_is_asked_for_its_models_where_the_gateway_allows_its_address():
    asked = []
    composed(endpoint(url="http://10.0.0.7/v1"), allow=("10.0.0.0/8",), list_models=asked.append)
    assert asked == [ListRequest("http://10.0.0.7/v1/models", ("10.0.0.0/8",))]


API = "modelplane.ai/v1alpha1"
VOUCHER = Requirement(API, "ModelReplica", name="r", namespace="team")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (endpoint(), {"gateway": Requirement(API, "InferenceGateway", name="default")}),
        (
            endpoint(auth=AUTH),
            {
                "gateway": Requirement(API, "InferenceGateway", name="default"),
                "secret": Requirement("v1", "Secret", name="keys", namespace="team"),
            },
        ),
        (endpoint(url="http://10.0.0.7", **REPLICA), {"replica": VOUCHER}),
        (
            endpoint(url=SECURE, **REPLICA),
            {"replica": VOUCHER, "cluster": Requirement(API, "InferenceCluster", name="c")},
        ),
    ],
    ids=["a provider", "with a key", "a replica", "a replica behind mutual TLS"],
)
def test_what_an_endpoint_reads(made, expected):
    assert model_endpoint.compose(ComposeRequest(made)).requirements == expected


@pytest.mark.parametrize(
    ("secrets", "fetched", "reason"),
    [
        ((), False, "Unresolved"),
        ((), True, "Invalid"),
        ((secret(b""),), True, "Invalid"),
        ((secret(b"a\nb"),), True, "Invalid"),
        ((secret("ключ".encode()),), True, "Invalid"),
        (({"kind": "Secret", "data": {"api": "ключ"}},), True, "Invalid"),
        (({"kind": "Secret", "data": {"api": "YWJj!"}},), True, "Invalid"),
        (({"kind": "Secret", "data": 7},), True, "Invalid"),
        (({},), True, "Invalid"),
    ],
)
def test_without_a_credential_what_is_there_stays_and_it_says_why(secrets, fetched, reason):
    seen = {"backend": Observed(Local({"kind": "Backend"}), ready=True)}
    found = composed(endpoint(auth=AUTH), *secrets, fetched=fetched, observed=seen)
    assert list(found.desired) == ["backend"]
    assert [each.reason.value for each in found.conditions] == [reason]
    assert list(found.requirements) == ["gateway", "secret"]
    assert "k3y" not in str(found.conditions)


CREDENTIAL = {"method": "APIKey", "apiKey": AUTH}


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"auth": AUTH}, "spec.auth.secretRef"), ({"credential": CREDENTIAL}, "spec.credential.apiKey.secretRef")],
)
def test_a_secret_that_is_missing_is_named_by_the_field_that_names_it(spec, field):
    assert told(composed(endpoint(**spec), fetched=False)) == [
        ("Unknown", "Unresolved", f"{field}: the Secret is not read yet")
    ]
    message = f"{field}: no Secret keys with one line of text in key api"
    assert told(composed(endpoint(**spec))) == [("False", "Invalid", message)]


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
    return model_service.compose(ComposeRequest(resource=resource, required={"endpoints": manifests, "gateways": ()}))


def rule_of(found):
    rule, _ = found.desired["route"].target.manifest["spec"]["rules"]
    return rule


REMOVED = {"remove": ["modelplane-replica", "x-modelplane-caller"]}
WITHOUT_REPLICA = {"type": "RequestHeaderModifier", "requestHeaderModifier": REMOVED}


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
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/team/chat/v1"}}]
    assert rewrite["urlRewrite"] == {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/openai/v1"}}
    (backend,) = rule["backendRefs"]
    assert backend["filters"] == [
        WITHOUT_REPLICA,
        {"type": "URLRewrite", "urlRewrite": {"hostname": "api.example"}},
        {
            "type": "ExtensionRef",
            "extensionRef": {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": "up"},
        },
    ]


def test_a_provider_of_the_usual_path_shares_the_rule_with_replicas():
    replicas = [endpoint(name, "http://192.0.2.1", replica={"name": "r", "clusterName": "c"}) for name in ("a", "b")]
    found = service(*replicas, endpoint("z", "https://api.example/v1"))
    rule = rule_of(found)
    assert [each["name"] for each in rule["backendRefs"]] == ["a", "b", "z"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/team/chat"}}]


def test_endpoints_of_another_path_are_left_out_of_the_rule():
    replicas = [endpoint(name, "http://192.0.2.1", replica={"name": "r", "clusterName": "c"}) for name in ("a", "b")]
    found = service(*replicas, endpoint("z"))
    assert [each["name"] for each in rule_of(found)["backendRefs"]] == ["a", "b"]


def test_an_endpoint_waits_where_the_rule_of_the_gateway_cannot_be_read():
    found = composed(
        endpoint(url="http://127.0.0.1"), required={"gateway": ({"metadata": {"name": "default"}, "spec": 7},)}
    )
    (status, reason, message), *_ = told(found)
    assert (status, reason, message.startswith("InferenceGateway default: ")) == ("False", "Invalid", True)
