from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.envoy.merge import merge_backends, removed_headers
from modelplane.envoy.objects import BackendRef, HeaderChange, HeaderFilter, HeaderValue
from modelplane.envoy.pools import EnvoyCluster, PoolMember, UpstreamTls


def sets(**headers):
    values = tuple(HeaderValue(name, value) for name, value in headers.items())
    return (HeaderFilter(request_header_modifier=HeaderChange(set=values)),)


def removes(*names):
    return (HeaderFilter(request_header_modifier=HeaderChange(remove=names)),)


def adds(**headers):
    values = tuple(HeaderValue(name, value) for name, value in headers.items())
    return (HeaderFilter(request_header_modifier=HeaderChange(add=values)),)


def part(name, weight=1, members=1, filters=(), *, tls=None):
    pool = EnvoyCluster(name, tuple(PoolMember("127.0.0.1", 1000 + number) for number in range(members)), tls=tls)
    return BackendRef(name, weight=weight, filters=filters), pool


def test_members_keep_their_share_and_their_headers():
    found = merge_backends("all", [part("a", 3, 2, sets(to="a")), part("b", 1, 1, sets(to="b"))])
    assert found == EnvoyCluster(
        "all",
        (
            PoolMember("127.0.0.1", 1000, 3, (("to", "a"),)),
            PoolMember("127.0.0.1", 1001, 3, (("to", "a"),)),
            PoolMember("127.0.0.1", 1000, 2, (("to", "b"),)),
        ),
    )


def test_backends_that_remove_the_same_headers_are_joined():
    parts = [part("a", filters=removes("To")), part("b", filters=removes("to"))]
    assert merge_backends("all", parts) == merge_backends("all", [part("a"), part("b")])
    assert {removed_headers(ref) for ref, _ in parts} == {("to",)}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [part("a")],
        [part("a"), part("b", tls=UpstreamTls())],
        [part("a", filters=sets(to="a")), part("b")],
        [part("a", filters=sets(to="a")), part("b", filters=sets(other="b"))],
        [part("a"), part("b", filters=removes("to"))],
        [part("a", filters=removes("to")), part("b", filters=removes("to", "from"))],
        [part("a", filters=sets(to="a")), part("b", filters=removes("to"))],
        [part("a", filters=removes("to") + sets(to="a")), part("b", filters=removes("to") + sets(to="b"))],
        [part("a", filters=adds(to="a")), part("b", filters=adds(to="b"))],
        [part("a", 1_000_000, 97), part("b", 1_000_000, 89)],
    ],
)
def test_what_cannot_be_joined_stays_apart(parts):
    assert merge_backends("all", parts) is None


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 6)), min_size=2, max_size=5))
def test_every_backend_has_exactly_its_share(backends):
    parts = [part(str(number), weight, members) for number, (weight, members) in enumerate(backends)]
    found = merge_backends("all", parts)
    weights = [member.weight for member in found.members]
    start = 0
    for weight, members in backends:
        share = Fraction(sum(weights[start : start + members]), sum(weights))
        assert share == Fraction(weight, sum(given for given, _ in backends))
        start += members
