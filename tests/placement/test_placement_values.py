"""Where a cache is or will be."""

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
    ],
)
def test_where_a_cache_is_or_will_be(fields, reaches):
    assert CacheInfo(namespace="team", name="weights", **fields).reaches(EAST) is reaches
