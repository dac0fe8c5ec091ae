import msgspec

from modelplane.placement.index import _MAX_SPLITS, Reading
from modelplane.placement.request import CacheRequest
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import cluster, engine, labelled, place, pool, replica, request

EAST = cluster("east", labels={"region": "east"})


def test_a_fleet_without_clusters_is_a_fleet_all_the_same():
    assert Fleet.of()
    assert len(Fleet.of()) == 0
    known = Fleet.of([EAST], [replica("gone")])
    assert (len(known), list(known.clusters)) == (1, [EAST])


def test_an_update_leaves_the_fleet_that_it_was_made_from_as_it_was():
    before = Fleet.of([EAST])
    after = before.with_replicas([replica("east")]).with_cluster(cluster("west"))
    assert (list(before.replicas), len(before)) == ([], 1)
    assert (len(list(after.replicas)), len(after)) == (1, 2)


def test_what_is_not_touched_is_shared():
    before = Fleet.of([EAST, cluster("west", pool(nodes=9))])
    after = before.with_replicas([replica("east")])
    assert after.infos["west"] is before.infos["west"]
    (untouched,) = [key for key in before.equivalence_classes if key in after.equivalence_classes]
    assert after.equivalence_classes[untouched] is before.equivalence_classes[untouched]


def test_replicas_of_a_cluster_that_goes_and_comes_back_are_charged_again():
    fleet = Fleet.of([EAST], [replica("east")])
    gone = fleet.without_cluster("east")
    assert gone.cluster("east") is None
    back = gone.with_cluster(EAST)
    assert back.infos["east"].usages == fleet.infos["east"].usages
    assert gone.without_cluster("nowhere") is gone


def test_the_last_replica_of_a_cluster_that_is_gone_takes_its_site_along():
    fleet = Fleet.of([], [replica("gone")])
    assert dict(fleet.with_replicas(removed=[replica("gone").id]).infos) == {}


def test_caches_come_and_go():
    cache = CacheInfo(namespace="team", name="w", staged=frozenset({"east"}))
    asked = place(1, caches=(CacheRequest("w"),))
    fleet = Fleet.of([EAST])
    assert schedule(asked, fleet).pending == 1
    assert schedule(asked, fleet.with_cache(cache)).pending == 0
    assert schedule(asked, fleet.with_cache(cache).without_cache(("team", "w"))).pending == 1


def test_a_relabelled_cluster_is_found_by_its_new_labels():
    asked = place(1, cluster_selector=labelled(region="west"))
    fleet = Fleet.of([EAST])
    assert schedule(asked, fleet).pending == 1
    moved = fleet.with_cluster(msgspec.structs.replace(EAST, labels={"region": "west"}))
    assert schedule(asked, moved).pending == 0


def test_only_so_many_splits_are_kept_with_a_cell():
    fleet = Fleet.of([EAST, cluster("west", labels={"region": "west"})])
    (cell,) = fleet.equivalence_classes.values()
    for number in range(3 * _MAX_SPLITS):
        cell.split(Reading((f"label-{number}",)), fleet.infos)
    assert len(cell._splits) == _MAX_SPLITS
    assert dict(cell.split(Reading(("region",)), fleet.infos)) == {
        ("east",): (("east", 0),),
        ("west",): (("west", 0),),
    }


def test_several_engines_see_updates_too():
    two = (engine(request(8), name="a"), engine(request(8), name="b"))
    fleet = Fleet.of([cluster("east", pool(nodes=2))])
    assert schedule(place(1, *two), fleet).pending == 0
    assert schedule(place(1, *two), fleet.with_replicas([replica("east", name="other")])).pending == 1


def test_a_replica_that_comes_twice_counts_once_and_the_one_that_can_be_read_and_serves_counts():
    idle, serves, unread = replica("a"), replica("a", serving=True), replica("a", fault="x", serving=True)
    for order in ([idle, serves, unread], [unread, serves, idle], [serves, unread, idle]):
        fleet = Fleet.of([cluster("a")], order)
        assert list(fleet.replicas) == [serves]
        assert list(fleet.infos["a"].held.values()) == [serves]
