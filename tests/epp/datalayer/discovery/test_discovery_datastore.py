"""Endpoints keep their identity, and their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint, address_of


def names(datastore):
    return [endpoint.name for endpoint in datastore.current]


def test_an_endpoint_stays_the_same_object_while_its_labels_change():
    datastore = Datastore()
    heard = []
    datastore.on_change(heard.append)
    datastore.replace([DiscoveredEndpoint("a", "1:1", "u", {"x": "1"}, {"price": 1.0})])
    (endpoint,) = datastore.current
    endpoint.requests_in_flight = 7
    endpoint.attributes = {**endpoint.attributes, "read": 3.0}
    datastore.replace([DiscoveredEndpoint("a", "1:1", "u", {"x": "2"}, {"price": 2.0})])
    assert datastore.current[0] is endpoint
    assert (endpoint.labels, dict(endpoint.attributes), endpoint.requests_in_flight) == (
        {"x": "2"},
        {"price": 2.0, "read": 3.0},
        7,
    )
    assert len(heard) == 2


def test_another_address_or_another_pod_is_another_endpoint():
    datastore = Datastore()
    seen = []
    for found in (
        DiscoveredEndpoint("a", "1:1", "u"),
        DiscoveredEndpoint("a", "1:2", "u"),
        DiscoveredEndpoint("a", "1:2", "v"),
    ):
        datastore.replace([found])
        seen.append(datastore.current[0])
    assert len({id(endpoint) for endpoint in seen}) == 3


def test_no_change_is_not_reported_and_keeps_the_tuple():
    datastore = Datastore()
    datastore.replace([DiscoveredEndpoint("a", "1:1")])
    heard, before = [], datastore.current
    datastore.on_change(heard.append)
    datastore.replace([DiscoveredEndpoint("a", "1:1")])
    assert heard == []
    assert datastore.current is before


def test_the_order_is_that_of_the_names_with_numbers_as_numbers():
    datastore = Datastore()
    datastore.replace([DiscoveredEndpoint(name, "x") for name in ("p-10", "p-2", "a/b:8001", "a/b:8000", "p")])
    assert names(datastore) == ["a/b:8000", "a/b:8001", "p", "p-2", "p-10"]


FOUND = st.builds(DiscoveredEndpoint, st.sampled_from("abcde"), st.sampled_from(["1", "2"]), st.sampled_from("uv"))


@given(st.lists(st.lists(FOUND, max_size=6), max_size=6))
def test_the_last_list_counts_and_kept_endpoints_are_the_same_objects(steps):
    datastore, before = Datastore(), {}
    for step in steps:
        datastore.replace(step)
        wanted = {found.name: found for found in step}
        assert names(datastore) == sorted(wanted)
        now = {(e.name, e.address, wanted[e.name].uid): e for e in datastore.current}
        assert all(now[key] is before[key] for key in now.keys() & before.keys())
        before = now


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.0.0.1", "10.0.0.1:80"), ("fd00::1", "[fd00::1]:80"), ("models.example", "models.example:80")],
)
def test_addresses(host, address):
    assert address_of(host, 80) == address
