"""Where a cache is or will be, and what a priority is worth on a cluster."""

import pytest

from modelplane.placement.values import CacheInfo, Packing, QueueInfo
from modelplane.testing.fleets import assignment, claim, cluster, labelled, replica

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


def test_packing_has_the_words_of_the_api():
    assert list(Packing) == ["Any", "BinPack"]


def test_what_is_not_said_of_a_cache_and_of_a_queue():
    assert CacheInfo(namespace="team", name="weights").artifact == "Weights"
    assert QueueInfo("q", 8).others == 0


def test_a_replica_has_the_devices_that_it_claims():
    steered = claim(4, device_class=None)
    assert replica("east", 0, assignment("h200", claim(2), steered, pods=3)).devices == 6


def test_the_digest_of_a_replica_is_a_name_that_tells_nothing_of_it():
    digest = replica("east", name="secret").digest
    assert (digest[:2], "secret" in digest) == ("r-", False)
