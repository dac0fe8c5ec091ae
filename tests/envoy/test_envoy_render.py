import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.envoy import GatewayProblem, GatewayView, render
from modelplane.envoy.render import Renderer
from modelplane.sim.engine import Address


def view(**changes):
    return GatewayView(**{"name": "gate", "host": "127.0.0.1", "port": 8080, **changes})


def test_one_route_to_one_service(build):
    route = build.route("demo", {"matches": [build.prefix("/a")], "backendRefs": [{"name": "pods", "port": 80}]})
    slices = build.endpoint_slice("pods", Address("127.0.0.1", 8000))
    config = render([view(routes=(route,), services=(build.service("pods"),), slices=slices)])

    assert config.problems == ()
    assert list(config.listeners) == list(config.virtual_hosts) == ["gate"]
    assert config.listeners["gate"]["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 8080}}
    (cluster,) = config.clusters.values()
    assert (cluster["name"], cluster["type"]) == ("gate/Service/team-a/pods/80", "STATIC")
    assert cluster["load_assignment"] == {
        "cluster_name": "gate/Service/team-a/pods/80",
        "endpoints": [
            {
                "lb_endpoints": [
                    {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 8000}}}}
                ]
            }
        ],
    }
    found, missing = config.virtual_hosts["gate"]["routes"]
    assert found["match"]["path_separated_prefix"] == "/a"
    assert missing["direct_response"]["status"] == 404


def test_no_name_is_resolved_by_envoy(build):
    route = build.route("demo", {"backendRefs": [{"name": "up", "kind": "Backend", "group": "gateway.envoyproxy.io"}]})
    up = build.backend("up", {"fqdn": {"hostname": "api.example", "port": 80}})
    config = render([view(routes=(route,), backends=(up,))])
    assert (config.clusters, [each.reason for each in config.problems]) == ({}, ["UnsupportedValue", "BackendNotFound"])


def test_two_gateways_never_share_a_pool(build):
    route = build.route("demo", {"backendRefs": [{"name": "pods", "port": 80}]})
    pods = {"routes": (route,), "services": (build.service("pods"),)}
    east = view(name="east", port=1, slices=build.endpoint_slice("pods", Address("127.0.0.1", 11)), **pods)
    west = view(name="west", port=2, slices=build.endpoint_slice("pods", Address("127.0.0.1", 12)), **pods)
    config = render([west, east])
    assert list(config.clusters) == ["east/Service/team-a/pods/80", "west/Service/team-a/pods/80"]
    assert render([east, west]) == config


def test_a_route_that_cannot_be_honoured_is_left_out_and_the_others_stay(build):
    good = build.route("good", {"matches": [build.prefix("/good")]})
    bad = build.route("bad", {"matches": [{"method": "GET"}]})
    config = render([view(routes=(bad, good))])
    message = "spec.rules[0].matches[0]: object contains unknown field `method`"
    assert config.problems == (GatewayProblem("gate", "HTTPRoute", "team-a", "bad", "UnsupportedValue", message),)
    assert len(config.virtual_hosts["gate"]["routes"]) == 2


def test_a_broken_reference_is_reported_once(build):
    rule = {"matches": [build.prefix("/a"), build.prefix("/b")], "backendRefs": [{"name": "no", "port": 80}]}
    message = "Service team-a/no does not exist or cannot be read"
    assert render([view(routes=(build.route("demo", rule, rule),))]).problems == (
        GatewayProblem("gate", "HTTPRoute", "team-a", "demo", "BackendNotFound", message),
    )


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ({"name": "gate", "port": 1}, "gateway gate: name: given twice"),
        ({"name": "other"}, "gateway other: port: 127.0.0.1:8080 belongs to gateway gate"),
    ],
)
def test_gateways_have_their_own_name_and_address(second, sentence):
    with pytest.raises(InputError) as caught:
        render([view(), view(**second)])
    assert str(caught.value) == sentence


def test_only_what_no_engine_saw_is_tried_again():
    retry = render([view()]).virtual_hosts["gate"]["retry_policy"]
    assert retry["retry_on"] == "connect-failure,refused-stream,reset-before-request,retriable-headers"
    assert retry["retriable_headers"] == [{"name": "x-modelplane-unserved", "present_match": True}]


def test_what_did_not_change_is_the_same_object_in_the_next_configuration(build):
    routes = tuple(build.route(name, {"backendRefs": [{"name": name, "port": 80}]}) for name in "abc")
    services = tuple(build.service(name) for name in "abc")
    slices = [build.endpoint_slice(name, Address("127.0.0.1", port)) for port, name in enumerate("abc", 1)]
    gate = view(routes=routes, services=services, slices=tuple(piece for found in slices for piece in found))
    other = view(name="other", port=1)
    renderer = Renderer()
    first = renderer.render([gate, other])
    slices[1] = build.endpoint_slice("b", Address("127.0.0.1", 9))
    moved = view(routes=routes, services=services, slices=tuple(piece for found in slices for piece in found))
    second = renderer.render([moved, other])
    same = {name for name in first.clusters if first.clusters[name] is second.clusters[name]}
    assert same == {"gate/Service/team-a/a/80", "gate/Service/team-a/c/80"}
    assert second.listeners["gate"] is first.listeners["gate"]
    assert second.virtual_hosts["other"] is first.virtual_hosts["other"]
    assert second == render([moved, other])


PROVIDER = {"name": "up", "kind": "Backend", "group": "gateway.envoyproxy.io"}


def external(build, *, tls=None, extension=None, secret=b"Bearer k"):
    """A route to a provider by name, with what its filters add."""
    ref = {**PROVIDER}
    if extension:
        named = {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": extension}
        ref["filters"] = [{"type": "ExtensionRef", "extensionRef": named}]
    rewrite = {"type": "URLRewrite", "urlRewrite": {"hostname": "api.example"}}
    up = build.backend("up", {"ip": {"address": "93.184.215.14", "port": 443}})
    if tls:
        up["spec"]["tls"] = tls
    injection = {"header": "Api-Key", "overwrite": True, "credential": {"valueRef": {"name": "key"}}}
    added = {**_thing("HTTPRouteFilter", "adds"), "spec": {"credentialInjection": injection}}
    held = {**_thing("Secret", "key"), "data": {"credential": base64.b64encode(secret).decode()}}
    route = build.route("demo", {"filters": [rewrite], "backendRefs": [ref]})
    return render([view(routes=(route,), backends=(up,), filters=(added,), secrets=(held,))])


def test_a_provider_gets_its_own_name_and_a_credential_and_must_prove_itself(build):
    config = external(build, tls={"wellKnownCACertificates": "System", "sni": "api.example"}, extension="adds")
    assert config.problems == ()
    routed = config.virtual_hosts["gate"]["routes"][0]["route"]
    assert routed["host_rewrite_literal"] == "api.example"
    (weighted,) = routed["weighted_clusters"]["clusters"]
    assert weighted["request_headers_to_add"] == [
        {"header": {"key": "Api-Key", "value": "Bearer k"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    ]
    (cluster,) = config.clusters.values()
    context = cluster["transport_socket"]["typed_config"]
    assert context["sni"] == "api.example"
    assert context["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"] == [
        {"san_type": "DNS", "matcher": {"exact": "api.example"}}
    ]


@pytest.mark.parametrize(("extension", "secret"), [("missing", b"k"), ("adds", b""), ("adds", b"a\nb")])
def test_without_its_credential_nothing_is_sent_to_a_provider(build, extension, secret):
    config = external(build, extension=extension, secret=secret)
    (problem,) = config.problems
    assert problem.message == f"HTTPRouteFilter team-a/{extension} has no credential to add"
    assert config.virtual_hosts["gate"]["routes"][0]["direct_response"]["status"] == 503
    assert config.clusters == {}


def test_tls_that_is_not_understood_is_refused(build):
    config = external(build, tls={"insecureSkipVerify": True})
    assert [problem.kind for problem in config.problems] == ["Backend", "HTTPRoute"]
    assert config.clusters == {}


@st.composite
def histories(draw):
    """The same few objects, there or not and in one of two versions, as gateways see them over time."""
    names, versions = st.sampled_from(["a", "b"]), st.integers(0, 1)
    found = st.dictionaries(names, versions, max_size=2)
    seen = st.fixed_dictionaries({"routes": found, "services": found, "slices": found, "backends": found})
    return draw(st.lists(st.dictionaries(st.sampled_from(["one", "two"]), seen, max_size=2), max_size=6))


@given(histories())
def test_a_remembered_rendering_is_the_rendering(build_once, history):
    renderer = Renderer()
    for gateways in history:
        views = [
            GatewayView(
                name=name,
                host="127.0.0.1",
                port=number,
                **{kind: tuple(build_once(kind, *item) for item in found.items()) for kind, found in seen.items()},
            )
            for number, (name, seen) in enumerate(sorted(gateways.items()), 1)
        ]
        assert renderer.render(views) == render(views)


@pytest.fixture(scope="session")
def build_once():
    """Objects by kind, name and version; the same object each time, as from a store."""
    made = {}

    def once(kind, name, version):
        return made.setdefault((kind, name, version), _MAKE[kind](name, version))

    return once


def _thing(kind, name, **fields):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team-a", **fields}}


_MAKE = {
    "routes": lambda name, version: {
        **_thing("HTTPRoute", name),
        "spec": {
            "rules": [
                {
                    "backendRefs": [
                        {"name": name, "port": 80},
                        {"name": name, "group": "gateway.envoyproxy.io", "kind": "Backend", "weight": 1 + version},
                    ]
                }
            ]
        },
    },
    "services": lambda name, version: {**_thing("Service", name), "spec": {"ports": [{"port": 80 + version}]}},
    "slices": lambda name, version: {
        **_thing("EndpointSlice", name, labels={"kubernetes.io/service-name": name}),
        "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"port": 1 + version}],
    },
    "backends": lambda name, version: {
        **_thing("Backend", name),
        "spec": {"endpoints": [{"ip": {"address": "127.0.0.1", "port": 1}} if version else {"broken": 1}]},
    },
}
