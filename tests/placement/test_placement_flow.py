"""Demands for devices of many kinds: more sets than are tried one by one."""

import pytest

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
