"""Bodies that are held whole, each and together within limits."""

import asyncio
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.transport.held_bodies import BodyRefused, HeldBodies, read_at_most

TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body has more than 10 bytes")


async def pieces(*sizes):
    for size in sizes:
        yield b"x" * size


def read(sizes, stated=None, most=10):
    try:
        return len(asyncio.run(read_at_most(pieces(*sizes), most, stated)))
    except BodyRefused as refused:
        return refused.status, str(refused)


@pytest.mark.parametrize(
    ("sizes", "stated", "expected"),
    [
        ((), None, 0),
        ((4, 6), None, 10),
        ((4, 6), 10, 10),
        ((4, 7), None, TOO_LARGE),
        ((11,), None, TOO_LARGE),
        ((4, 7), 5, TOO_LARGE),
        ((1,), 11, TOO_LARGE),
    ],
)
def test_a_body_has_a_limit_whatever_length_is_stated(sizes, stated, expected):
    assert read(sizes, stated) == expected


def test_bodies_have_a_limit_together_until_they_are_let_go():
    async def scenario():
        bodies = HeldBodies(10, 15)
        with bodies.lease() as first:
            await first.read(pieces(9))
            refused = pytest.raises(BodyRefused, match="the bodies of other requests take 13 of 15 bytes")
            with refused as raised, bodies.lease() as second:
                await second.read(pieces(4, 4))
            assert (raised.value.status, bodies.held_bytes) == (HTTPStatus.SERVICE_UNAVAILABLE, 9)
        with bodies.lease() as third:
            return await third.read(pieces(4, 4)), bodies.held_bytes

    assert asyncio.run(scenario()) == (b"x" * 8, 8)


@given(st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=8), st.integers(0, 20), st.integers(0, 40))
def test_nothing_is_held_beyond_the_limits_or_after_the_end(bodies, most, most_held):
    held = HeldBodies(most, most_held)

    async def hold(sizes):
        with held.lease() as lease:
            await lease.read(pieces(*sizes))
            assert held.held_bytes <= most_held
            assert sum(sizes) <= most
            await asyncio.sleep(0)

    async def scenario():
        return await asyncio.gather(*map(hold, bodies), return_exceptions=True)

    ended = asyncio.run(scenario())
    assert held.held_bytes == 0
    assert {type(each) for each in ended} <= {type(None), BodyRefused}
