"""Where a cache is or will be, and what a priority is worth on a cluster."""

import pytest

from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import cluster, labelled

EAST = cluster("east", labels={"region": "east"})


@pytest.mark.parametrize(
    ("fields", "reaches"),
    [
        pytest.param({}, True, id="everywhere"),
        pytest.param({"selector": labelled(region="east")}, True, id="selected"),
        pytest.param({"selector": labelled(region="west")}, False, id="not selected"),
        pytest.param({"selector": labelled(region="west"), "staged": frozenset({"east"})}, True, id="staged before"),
        pytest.param({"refused": (("too large", frozenset({"east"})),)}, False, id="refused there"),
        pytest.param({"refused": (("too large", frozenset({"west"})),)}, True, id="refused elsewhere"),
    ],
)
def test_where_a_cache_is_or_will_be(fields, reaches):
    assert CacheInfo(namespace="team", name="weights", **fields).reaches(EAST) is reaches


@pytest.mark.parametrize(
    ("default", "name", "value"),
    [(None, "gold", 5), (None, "iron", 0), (None, None, 0), ("gold", None, 5), ("gold", "iron", 0)],
)
def test_a_priority_that_a_cluster_does_not_know_is_worth_nothing(default, name, value):
    assert cluster("a", priorities=(("gold", 5),), default_priority=default).priority_value(name) == value
