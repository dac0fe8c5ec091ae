import pytest

from modelplane.envoy import objects
from modelplane.envoy.objects import HttpRoute, UnsupportedError, name_of, read


def with_rule(**rule):
    return {"metadata": {"name": "demo"}, "spec": {"rules": [rule]}}


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({}, "the object: object missing required field `metadata`"),
        ({"metadata": {"name": "Demo"}, "spec": {}}, "metadata.name: expected `str` matching regex"),
        (
            {"metadata": {"name": "demo"}, "spec": {"hostnames": ["x"]}},
            "spec: object contains unknown field `hostnames`",
        ),
        (with_rule(matches=[{"method": "GET"}]), "spec.rules[0].matches[0]: object contains unknown field `method`"),
        (
            with_rule(matches=[{"path": {"type": "RegularExpression", "value": "/.*"}}]),
            "spec.rules[0].matches[0].path.type: invalid enum value 'RegularExpression'",
        ),
        (with_rule(matches=[{"path": {"value": "a"}}]), "spec.rules[0].matches[0].path.value: expected `str` matching"),
        (
            with_rule(matches=[{"path": {"value": "/a b"}}]),
            "spec.rules[0].matches[0].path.value: expected `str` matching",
        ),
        (
            with_rule(matches=[{"path": {"value": "/a\n"}}]),
            "spec.rules[0].matches[0].path.value: expected `str` matching",
        ),
        (
            with_rule(filters=[{"type": "RequestMirror"}]),
            "spec.rules[0].filters[0].type: invalid value 'RequestMirror'",
        ),
        (
            with_rule(filters=[{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["host"]}}]),
            "spec.rules[0].filters[0].requestHeaderModifier.remove[0]: expected `str` matching",
        ),
        (
            with_rule(
                filters=[
                    {
                        "type": "RequestHeaderModifier",
                        "requestHeaderModifier": {"set": [{"name": "a", "value": "b\r\n"}]},
                    }
                ]
            ),
            "spec.rules[0].filters[0].requestHeaderModifier.set[0].value: expected `str` matching",
        ),
        (with_rule(timeouts={"request": "soon"}), "spec.rules[0].timeouts.request: expected `str` matching"),
        (with_rule(timeouts={"backendRequest": "1s"}), "spec.rules[0].timeouts: object contains unknown field"),
        (
            with_rule(backendRefs=[{"name": "a", "weight": -1}]),
            "spec.rules[0].backendRefs[0].weight: expected `int` >= 0",
        ),
    ],
)
def test_an_unsupported_route_is_rejected_by_field(manifest, sentence):
    with pytest.raises(UnsupportedError) as caught:
        read(manifest, HttpRoute)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        ({}, "object missing required field `ip`"),
        ({"fqdn": {"hostname": "a.example", "port": 1}}, "object contains unknown field `fqdn`"),
        ({"ip": {"address": "a.example", "port": 1}}, "'a.example' does not appear to be an IPv4 or IPv6 address"),
        ({"ip": {"address": "1.2.3.4", "port": 0}}, "expected `int` >= 1"),
        ({"unix": {"path": "/x"}}, "object contains unknown field `unix`"),
    ],
)
def test_a_backend_that_cannot_be_called_is_refused(endpoint, sentence):
    with pytest.raises(UnsupportedError) as caught:
        read({"metadata": {"name": "demo"}, "spec": {"endpoints": [endpoint]}}, objects.EnvoyBackend)
    assert sentence in str(caught.value)


def test_defaults_are_kubernetes_own():
    route = read({"metadata": {"name": "demo"}, "spec": {}}, HttpRoute)
    rule = route.spec.rules[0]
    assert (route.metadata.namespace, rule.matches[0].path.type, rule.matches[0].path.value) == (
        "default",
        "PathPrefix",
        "/",
    )
    reference = read(with_rule(backendRefs=[{"name": "a"}]), HttpRoute).spec.rules[0].backend_refs[0]
    assert (reference.group, reference.kind, reference.weight) == ("", "Service", 1)


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ({"metadata": {"name": "a", "namespace": "b"}}, ("b", "a")),
        ({"metadata": {}}, ("default", "(without a name)")),
        ({"metadata": 7}, ("default", "(without a name)")),
    ],
)
def test_a_broken_manifest_still_has_a_name(manifest, found):
    assert name_of(manifest) == found
