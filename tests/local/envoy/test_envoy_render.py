import pytest

from modelplane.api.errors import InputError
from modelplane.engine import Address
from modelplane.local.envoy import GatewayView, Problem, render


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


def test_names_are_resolved_by_envoy(build):
    route = build.route("demo", {"backendRefs": [{"name": "up", "kind": "Backend", "group": "gateway.envoyproxy.io"}]})
    up = build.backend("up", {"fqdn": {"hostname": "api.example", "port": 80}})
    (cluster,) = render([view(routes=(route,), backends=(up,))]).clusters.values()
    assert cluster["type"] == "STRICT_DNS"


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
    assert config.problems == (Problem("gate", "HTTPRoute", "team-a", "bad", "UnsupportedValue", message),)
    assert len(config.virtual_hosts["gate"]["routes"]) == 2


def test_a_broken_reference_is_reported_once(build):
    rule = {"matches": [build.prefix("/a"), build.prefix("/b")], "backendRefs": [{"name": "no", "port": 80}]}
    message = "Service team-a/no does not exist or cannot be read"
    assert render([view(routes=(build.route("demo", rule, rule),))]).problems == (
        Problem("gate", "HTTPRoute", "team-a", "demo", "BackendNotFound", message),
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
