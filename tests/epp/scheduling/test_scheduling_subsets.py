"""Which endpoints a proxy's hint allows, in every spelling of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.headers import spoofed_headers
from modelplane.epp.scheduling.subsets import SubsetFilter, filter_by_subset, join, parse, split

POOL = (
    Endpoint("a0", "10.0.0.1:8000"),
    Endpoint("a1", "10.0.0.1:8001"),
    Endpoint("b", "10.0.0.2:8000"),
    Endpoint("six", "[2001:db8::1]:8000"),
)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        pytest.param(None, ["a0", "a1", "b", "six"], id="no hint"),
        pytest.param([], [], id="an empty list"),
        pytest.param("", [], id="an empty text"),
        pytest.param(["10.0.0.1:8000"], ["a0"], id="the port matters"),
        pytest.param(["10.0.0.1"], ["a0", "a1"], id="no port: all of them"),
        pytest.param("10.0.0.1:8001, 10.0.0.2:8000", ["a1", "b"], id="one text with commas"),
        pytest.param(["10.0.0.1:8001,10.0.0.2:8000"], ["a1", "b"], id="a list of texts with commas"),
        pytest.param(["[2001:db8::1]:8000"], ["six"], id="an IPv6 address in brackets"),
        pytest.param(["[2001:DB8:0:0:0:0:0:1]:8000"], ["six"], id="spelled otherwise"),
        pytest.param(["2001:db8::1"], ["six"], id="bare"),
        pytest.param(["[2001:db8::1]"], ["six"], id="in brackets without a port"),
        pytest.param(["[2001:db8::1]:8001"], [], id="another port"),
        pytest.param(["10.0.0.9:8000"], [], id="unknown address"),
        pytest.param(["  10.0.0.2:8000 ", " "], ["b"], id="with blanks"),
        pytest.param(7, [], id="an invalid hint allows none"),
    ],
)
def test_hints(hint, expected):
    assert [endpoint.name for endpoint in filter_by_subset(POOL, parse(hint))] == expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (" 10.0.0.1:80 ,, 10.0.0.2", ("10.0.0.1:80", "10.0.0.2")),
        (["a,b ", "", " ,", 7, None, "c"], ("a", "b", "c")),
        (("a", "b"), ("a", "b")),
        ([], ()),
        ({"a": 1}, ()),
        (None, None),
    ],
)
def test_a_hint_is_a_list_of_its_entries(hint, expected):
    assert parse(hint) == expected


def test_the_same_hint_over_the_same_pool_is_the_same_tuple():
    subset_filter = SubsetFilter()
    hint = ("10.0.0.1:8000",)
    kept = subset_filter.of(POOL, hint)
    further = subset_filter.of(POOL, ("10.0.0.2",))
    assert [[endpoint.name for endpoint in found] for found in (kept, further)] == [["a0"], ["b"]]
    assert subset_filter.of(POOL, hint) is kept
    assert subset_filter.of(POOL, None) is POOL
    other = POOL[1:]
    assert subset_filter.of(other, hint) == ()
    for at in range(600):
        subset_filter.of(POOL, (f"10.1.{at}.1:80",))
    assert len(subset_filter._by_hint(POOL)) < 300


def test_a_list_of_endpoints_may_change_between_two_requests():
    subset_filter, pool, hint = SubsetFilter(), list(POOL), ("10.0.0.1",)
    before = subset_filter.of(pool, hint)
    pool.pop(0)
    assert (subset_filter.of(pool, hint), before) == ((POOL[1],), POOL[:2])


def test_a_hint_that_allows_all_leaves_the_pool_as_it_is():
    assert filter_by_subset(POOL, tuple(endpoint.address for endpoint in POOL)) is POOL


@given(st.lists(st.sampled_from([*(each.address for each in POOL), "10.0.0.1", "nonsense", "::", "[", "a:b:c"])))
def test_an_allowed_endpoint_was_named(hint):
    for endpoint in filter_by_subset(POOL, parse(hint)):
        host, _ = split(endpoint.address)
        assert endpoint.address in hint or host in hint


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1:80", ("10.0.0.1", "80")),
        ("10.0.0.1", ("10.0.0.1", "")),
        ("[2001:DB8:0::1]:80", ("2001:db8::1", "80")),
        ("[::1]", ("::1", "")),
        ("::1", ("::1", "")),
        ("2001:db8:0::1", ("2001:db8::1", "")),
        ("[pod]:80", ("pod", "80")),
        ("[10.0.0.1]:80", ("10.0.0.1", "80")),
        ("a:b:c", ("a:b:c", "")),
    ],
)
def test_host_and_port(address, expected):
    assert split(address) == expected


@pytest.mark.parametrize("address", ["10.0.0.1:80", "[2001:db8::1]:80"])
def test_an_address_can_be_taken_apart_and_put_together(address):
    assert join(*split(address)) == address


@pytest.mark.parametrize(
    ("headers", "written", "expected"),
    [
        ({}, (), ()),
        ({"content-type": "x"}, (), ()),
        (
            {"x-prefiller-host-port": "6.6.6.6:1", "x-gateway-destination-endpoint": "6.6.6.6:2", "a": "b"},
            (),
            ("x-gateway-destination-endpoint", "x-prefiller-host-port"),
        ),
        ({"x-prefiller-host-port": "6.6.6.6:1"}, (("x-prefiller-host-port", "10.0.0.1:8000"),), ()),
        (
            {"x-encoder-hosts-ports": "1", "x-data-parallel-host-port": "2", "x-kv-cache-source-host-port": "3"},
            (("x-data-parallel-host-port", "4"),),
            ("x-encoder-hosts-ports", "x-kv-cache-source-host-port"),
        ),
    ],
)
def test_routing_headers_of_clients_are_taken_away(headers, written, expected):
    assert spoofed_headers(headers, written) == expected
