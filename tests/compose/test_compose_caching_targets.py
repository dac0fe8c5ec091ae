"""Which clusters hold a cache that follows its replicas, and when one leaves."""

import pytest

from tests.compose.caches import NOW, Fleet, make_cache, make_cluster, make_replica


def following(*clusters, **spec):
    """A cache that is staged where its replicas are."""
    fleet = Fleet(make_cache(replication="WherePlaced", **spec), [make_cluster(name) for name in "abc"])
    fleet.replicas = [make_replica(name, index=index) for index, name in enumerate(clusters)]
    fleet.settle()
    assert list(fleet.entries()) == list(clusters)
    return fleet


def test_a_cache_is_looked_at_again_when_the_first_of_its_clusters_leaves():
    fleet = following("a", "c")
    for kept in (["c"], []):
        fleet.replicas = [make_replica(name) for name in kept]
        fleet.apply()
        fleet.now += 600
    assert fleet.apply().requeue_after_s == 2400
    assert fleet.phases() == dict.fromkeys(("a", "c"), ("Ready", "Staged"))


@pytest.mark.parametrize(
    ("elapsed", "left"),
    [(3599.5, (["a"], 0.5)), (3600, ([], None))],
)
def test_a_cluster_keeps_what_nothing_mounts_for_as_long_as_the_cache_says(elapsed, left):
    fleet = following("a")
    fleet.replicas = []
    fleet.apply()
    fleet.now = NOW + elapsed
    result = fleet.apply()
    assert (list(fleet.entries()), result.requeue_after_s) == left


def test_further_clusters_are_those_that_have_it_and_then_those_that_take_replicas():
    fleet = following("c")
    fleet.replicas = []
    fleet.clusters[0]["spec"]["cordoned"] = True
    staged = []
    for count in (1, 2, 3):
        fleet.cache["spec"]["prewarm"] = count
        fleet.apply()
        staged.append(sorted(fleet.entries()))
    assert staged == [["c"], ["b", "c"], ["a", "b", "c"]]
