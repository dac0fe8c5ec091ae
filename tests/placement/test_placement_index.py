"""Places that are alike, by what decisions read of their clusters, while clusters change."""

import pytest

from modelplane.placement.index import Reading
from modelplane.placement.snapshot import Fleet
from modelplane.testing.fleets import cluster, replica

BY_REGION = Reading(("region",))
REGIONS = {"a": "east", "b": "east", "c": "west", "d": "west"}


def in_region(name, region):
    return cluster(name, labels={"region": region})


def parts(fleet):
    """The clusters of each class by their region. Most are in one class; each that has a replica is in another."""
    found = (dict(each.split(BY_REGION, fleet.infos)) for each in fleet.equivalence_classes.values())
    named = [{region: "".join(name for name, _ in places) for (region,), places in each.items()} for each in found]
    return sorted(named, key=str)


@pytest.fixture
def fleet():
    made = Fleet.of([in_region(name, region) for name, region in REGIONS.items()])
    assert parts(made) == [{"east": "ab", "west": "cd"}]
    return made


def test_what_a_decision_reads_of_a_cluster():
    reading = Reading(("region", "zone"), (frozenset({"a"}), frozenset({"b"})))
    assert reading.facts(in_region("a", "east")) == ("east", None, True, False)


def test_a_cluster_with_another_label_is_in_another_part(fleet):
    assert parts(fleet.with_cluster(in_region("a", "west"))) == [{"east": "b", "west": "acd"}]


def test_parts_are_kept_through_several_changes(fleet):
    used = fleet.with_replicas([replica("b")]).with_replicas([replica("c")])
    assert parts(used) == [{"east": "a", "west": "d"}, {"east": "b", "west": "c"}]
    assert parts(used.with_replicas(removed=[replica("c").id])) == [{"east": "a", "west": "cd"}, {"east": "b"}]
