"""Demands for devices of many kinds: more sets than are tried one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.placement import flow
from modelplane.placement.flow import feasible


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param((1, 0b1000_0001), True, id="a device that nobody else needs"),
        pytest.param((1, 0b0000_0011), False, id="devices that the others need"),
        pytest.param((2, 0b1100_0000), True, id="a demand gives way to another kind"),
        pytest.param((3, 0b1100_0000), False, id="one too many"),
    ],
)
def test_many_demands_are_met_together_or_not(last, expected):
    """Seven kinds of which one device each is wanted, the seventh or an eighth of a kind with two devices."""
    demands = [(1, 1 << bit) for bit in range(6)] + [(1, 0b1100_0000), last]
    assert feasible(demands, (1, 1, 1, 1, 1, 1, 1, 2)) is expected


@pytest.mark.parametrize(
    ("demands", "counts", "expected"),
    [
        pytest.param(
            [(1, 0b110), (2, 0b111), (1, 0b100), (1, 0b001), (1, 0b101), (1, 0b011), (1, 0b010)],
            (2, 2, 4),
            True,
            id="all devices are taken",
        ),
        pytest.param(
            [(2, 0b1111), (1, 0b1110), (1, 0b0110), (1, 0b1001), (1, 0b0011), (1, 0b0111), (2, 0b0100)],
            (1, 3, 1, 4),
            False,
            id="the last demand finds one device of two",
        ),
    ],
)
def test_a_device_that_moves_is_counted_where_it_is(demands, counts, expected):
    """Every demand has kinds of its own, and others give way to it several times."""
    assert feasible(demands, counts) is expected


wanted = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 15)), min_size=7, max_size=9, unique_by=lambda demand: demand[1]
)


@given(wanted, st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_a_flow_is_found_where_every_set_of_demands_finds_enough(demands, counts):
    by_kinds = [(kinds, count) for count, kinds in demands]
    assert feasible(demands, counts) is flow._every_set_finds_enough(by_kinds, counts)
