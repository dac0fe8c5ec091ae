import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.envoy import GatewayConfigs, GatewayView, render
from modelplane.sim.engine import Address


def read(config):
    """A configuration with its resources as values."""
    tables = ("listeners", "clusters", "virtual_hosts")
    values = {table: {name: _value(each) for name, each in getattr(config, table).items()} for table in tables}
    return values, [list(values[table]) for table in tables], config.problems, config.addresses()


def _value(told):
    return json.loads(told) if isinstance(told, bytes) else told


def view(build, name, port, pods=(), routes=1):
    found = tuple(
        build.route(f"r{number}", {"backendRefs": [{"name": "pods", "port": 80}]}) for number in range(routes)
    )
    slices = tuple(piece for each in pods for piece in build.endpoint_slice("pods", Address("127.0.0.1", each)))
    return GatewayView(
        name=name, host="127.0.0.1", port=port, routes=found, services=(build.service("pods"),), slices=slices
    )


# The fixture is a namespace of functions: nothing of one example is in the next.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from([(), (11,), (12,)])), max_size=8))
def test_gateways_one_at_a_time_are_the_gateways_together(build, changes):
    gateways, wanted = GatewayConfigs(), {}
    for name, pods in changes:
        if pods is None:
            wanted.pop(name, None)
            gateways.drop(name)
        else:
            wanted[name] = view(build, name, 1 + ord(name), pods)
            gateways.put(wanted[name])
    assert read(gateways.config()) == read(render(wanted.values()))


@pytest.mark.parametrize("routes", [1, 100])
def test_equal_texts_are_kept_once(build, routes):
    gateways = GatewayConfigs()
    gateways.put(view(build, "gate", 1, (11,), routes))
    first = gateways.config()
    gateways.put(replace(view(build, "gate", 1, (11,), routes), grants=()))
    second = gateways.config()
    assert all(first.clusters[name] is second.clusters[name] for name in first.clusters)


def test_an_address_belongs_to_one_gateway_until_it_leaves(build):
    gateways = GatewayConfigs()
    gateways.put(view(build, "one", 1))
    with pytest.raises(InputError, match=r"gateway two: port: 127\.0\.0\.1:1 belongs to gateway one"):
        gateways.put(view(build, "two", 1))
    gateways.put(view(build, "one", 2))
    gateways.put(view(build, "two", 1))
    assert gateways.config().addresses() == {("127.0.0.1", 1), ("127.0.0.1", 2)}
