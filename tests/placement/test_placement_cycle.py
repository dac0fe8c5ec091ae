"""How even replicas lie over the values of a label."""

import pytest

from modelplane.placement.cycle import TopologyDomain
from modelplane.placement.request import SpreadRule


@pytest.mark.parametrize(
    ("counts", "values", "value", "expected"),
    [
        pytest.param({}, (), "a", (0, 1.0), id="nothing is placed"),
        pytest.param({"a": 2}, ("a",), "a", (0, 1.0), id="one value is never ahead"),
        pytest.param({"a": 2}, ("a", "b"), "b", (0, 1.0), id="the emptiest"),
        pytest.param({"a": 2}, ("a", "b"), "a", (2, 1 / 3), id="two ahead of an empty one"),
        pytest.param({"a": 3, "b": 2}, ("a", "b"), "a", (1, 0.5), id="one ahead"),
        pytest.param({"a": 1, "b": 2}, ("b",), "c", (0, 1.0), id="a value that is not known"),
    ],
)
def test_a_value_is_ahead_of_the_emptiest(counts, values, value, expected):
    domain = TopologyDomain(SpreadRule("zone"))
    domain.counts.update(counts)
    domain.values.update(values)
    assert (domain.ahead(value), domain.evenness(value)) == expected
    assert domain.evenness(None) == 0.0
