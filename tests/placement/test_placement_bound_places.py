"""Where pods are known to be: which reports count, and what a pool admits because of them."""

import msgspec
import pytest

from modelplane.placement.bound_places import BoundPlace, bound_nodes, find_places, update_places
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.decisions import DropReason
from modelplane.placement.hardware import Domain
from modelplane.placement.repair import is_oversubscribed, resolve_conflicts
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import BoundPods, MemberAssignment
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    place,
    pool,
    replica,
    request,
)

BORN = "2026-01-01T00:00:00Z"
ONE, EIGHT = ((1, 1),), ((8, 1),)
SMALL, LARGE = engine(request(1)), engine(request(8))


def small(index, **fields):
    return replica("a", index, assignment("p", claim(1)), name="small", **{"serving": True, "created": BORN, **fields})


def large(index, **fields):
    return replica("a", index, assignment("p", claim(8)), **{"serving": True, "created": BORN, **fields})


def on(node, found, devices=1, pods=1):
    return BoundPods("p", node, devices, pods, found.digest)


def mixed(*bound, nodes=10):
    return cluster("a", pool("p", nodes), bound=bound)


SINGLES = [small(index) for index in range(8)]


def test_a_mixed_pool_that_was_stranded_takes_whole_nodes():
    """Eight replicas of one device and nine of a whole node, on ten nodes of eight."""
    stranded = Fleet.of([mixed()], SINGLES)
    assert schedule(place(9, LARGE), stranded).pending == 7
    together = mixed(*(on("n1", found) for found in SINGLES))
    assert schedule(place(9, LARGE), Fleet.of([together], SINGLES)).pending == 0
    assert schedule(place(10, LARGE), Fleet.of([together], SINGLES)).pending == 1
    apart = mixed(*(on(f"n{at}", found) for at, found in enumerate(SINGLES)))
    assert schedule(place(9, LARGE), Fleet.of([apart], SINGLES)).pending == 7


def test_the_reason_counts_the_nodes_that_are_free():
    def refused(*bound):
        decided = schedule(place(9, LARGE), Fleet.of([mixed(*bound)], SINGLES))
        return [found.reason for found, _ in decided.trace.refusals()]

    hint = "; it fits if the cluster packs its pods (spec.scheduling.packing: BinPack)"
    assert refused() == [f"needs 1 free node; 0 of 10 nodes are free wherever the cluster puts its pods{hint}"]
    # Each has a node of its own: packing what starts from now on does not bring one back.
    apart = [on(f"n{at}", found) for at, found in enumerate(SINGLES)]
    assert refused(*apart)[0].startswith("needs 1 free node; 0 of 10 nodes are free")
    assert hint not in refused(*apart)[0]


def test_a_pool_that_would_do_if_it_were_empty_is_waited_for():
    together = mixed(*(on("n1", found) for found in SINGLES), nodes=2)
    decided = schedule(place(1, engine(request(8), nodes=2)), Fleet.of([together], SINGLES))
    assert (decided.pending, decided.trace.fits_nowhere) == (1, False)


def test_devices_are_free_again_where_the_pods_of_an_evicted_replica_were():
    apart = mixed(*(on(f"n{at}", found) for at, found in enumerate(SINGLES)), nodes=8)
    info = make_cluster_info(apart, SINGLES)
    left = info.with_replicas(removed=[SINGLES[3].id])
    assert (len(info.kinds[0].bound), len(left.kinds[0].bound)) == (8, 7)
    assert left.with_replicas([SINGLES[3]]).kinds == info.kinds
    decided = schedule(place(1, LARGE), Fleet.of([apart], SINGLES).with_replicas(removed=[SINGLES[3].id]))
    assert decided.pending == 0


def test_places_are_the_same_where_those_who_come_and_go_have_none():
    made = mixed(on("n1", small(0)))
    places = find_places(made, made.pools, [small(0)])
    decided = small(1, created="", serving=False)
    assert update_places(places, made, made.pools, [decided], [small(2).id]) is places
    assert update_places(places, made, made.pools, [], [small(0).id]) == {}


@pytest.mark.parametrize(
    ("found", "reported", "expected"),
    [
        pytest.param(small(0), [on("n1", small(0))], [BoundPlace(0, "n1", ONE, 1)], id="as reported"),
        pytest.param(small(0), [on("n1", small(1))], [], id="of another"),
        pytest.param(small(0), [on("n1", small(0, created="2026-02-01T00:00:00Z"))], [], id="of an earlier one"),
        pytest.param(small(0), [on("n1", small(0), devices=2)], [], id="a size that it does not have"),
        pytest.param(small(0), [on("n1", small(0)), on("n2", small(0))], [], id="more pods than it has"),
        pytest.param(small(0), [BoundPods("q", "n1", 1, 1, small(0).digest)], [], id="a pool that is not there"),
    ],
)
def test_which_reports_count(found, reported, expected):
    made = mixed(*reported)
    assert list(find_places(made, made.pools, [found]).get(found.id, ())) == expected


def test_pods_of_others_are_on_their_nodes_too():
    theirs = pool("p", 4)
    theirs = msgspec.structs.replace(theirs, held_by_others=(("gpu", 3),), claims_of_others=(("gpu", 1, 3),))
    together = [BoundPods("p", "n1", 1, 3, device="gpu")]
    assert schedule(place(3, LARGE), Fleet.of([cluster("a", theirs)])).pending == 2
    assert schedule(place(3, LARGE), Fleet.of([cluster("a", theirs, bound=tuple(together))])).pending == 0


RACK = msgspec.structs.replace(hardware(), domain=Domain("rack", 2))
TWO_KINDS = hardware(kind("big", 2), kind("fake", 4, device_class=None), kind("small", 4, product="H100"))


@pytest.mark.parametrize(
    ("theirs", "reported", "expected"),
    [
        pytest.param(pool("p", 4), ("p", 1, 5, "gpu"), [BoundPlace(1, "n1", ONE, 3)], id="no more than are known"),
        pytest.param(pool("p", 4), ("o", 1, 1, "gpu"), [], id="of a pool that nothing is known of"),
        pytest.param(pool("p", 4), ("p", 2, 1, "gpu"), [], id="of a size that is not known"),
        pytest.param(pool("p", 4), ("p", 1, 1, "nic"), [], id="of a kind that is not there"),
        pytest.param(
            pool("p", 4, TWO_KINDS), ("p", 1, 1, "small"), [BoundPlace(1, "n1", ((1, 4),), 1)], id="of a kind"
        ),
        pytest.param(pool("p", 4, TWO_KINDS), ("p", 1, 1, "fake"), [], id="of devices that nobody claims"),
        pytest.param(pool("p", 4, RACK), ("p", 1, 1, "gpu"), [], id="of a pool that is counted in domains"),
    ],
)
def test_which_reports_of_others_count(theirs, reported, expected):
    claims = tuple((each.name, 1, 3) for each in theirs.hardware.kinds)
    theirs = msgspec.structs.replace(theirs, claims_of_others=claims)
    name, devices, pods, device = reported
    made = cluster("a", pool("o", 4), theirs, bound=(BoundPods(name, "n1", devices, pods, device=device),))
    assert list(find_places(made, made.pools, []).get(None, ())) == expected


def test_pods_on_domains_are_not_followed_by_node():
    made = cluster("a", pool("p", 4, RACK), bound=(on("n1", small(0)),))
    assert find_places(made, made.pools, [small(0)]) == {}


def test_the_nodes_of_a_pool_have_its_own_pods_only():
    other = replica("a", 1, assignment("q", claim(8)), name="small", serving=True, created=BORN)
    made = cluster(
        "a", pool("p", 4), pool("q", 4), bound=(on("n1", small(0)), BoundPods("q", "n9", 8, 1, other.digest))
    )
    places = find_places(made, made.pools, [small(0), other]).values()
    assert [bound_nodes(places, position) for position in (0, 1)] == [(((ONE, 1),),), (((EIGHT, 1),),)]


def test_pods_of_several_members_are_told_apart_by_their_devices():
    members = (MemberAssignment(1, (claim(1),)), MemberAssignment(2, (claim(2),)))
    gang = msgspec.structs.replace(small(0), assignments=(assignment("p", claim(1)),))
    gang = msgspec.structs.replace(gang, assignments=(msgspec.structs.replace(gang.assignments[0], members=members),))
    made = mixed(on("n1", gang), on("n1", gang, devices=2), on("n2", gang, devices=2))
    places = find_places(made, made.pools, [gang])
    assert bound_nodes(places.values(), 0) == (((ONE, 1), (((2, 1),), 1)), ((((2, 1),), 1),))
    restarting = mixed(on("n1", gang), on("n2", gang), on("n2", gang, devices=2))
    assert bound_nodes(find_places(restarting, made.pools, [gang]).values(), 0) == (((((2, 1),), 1),),)


def test_pods_in_another_pool_are_not_among_those_that_a_pool_may_report():
    twice = replica("a", 0, assignment("p", claim(1)), assignment("q", claim(1), engine_name="b"), created=BORN)
    made = cluster("a", pool("p", 4), pool("q", 4), bound=(on("n1", twice), on("n2", twice)))
    assert find_places(made, made.pools, [twice]) == {}


def test_synthetic_devices_of_a_pod_are_not_among_those_that_are_reported():
    steered = replica("a", 0, assignment("p", claim(1), claim(3, device_class=None)), created=BORN)
    made = mixed(on("n1", steered))
    assert find_places(made, made.pools, [steered]) == {steered.id: (BoundPlace(0, "n1", ONE, 1),)}


def test_a_replica_that_restarts_keeps_its_place_while_its_node_is_free():
    """Its pod is bound to no node for a moment. Any node may be taken then, and none is."""
    replicas = [*SINGLES[:7], small(7, serving=False), *(large(at) for at in range(9))]
    made = mixed(*(on("n1", found) for found in SINGLES[:7]))
    info = make_cluster_info(made, replicas)
    assert not is_oversubscribed(info)
    decided = schedule(place(8, SMALL, deployment=small(0).deployment), Fleet.of([made], replicas))
    assert decided.dropped == ()


def test_a_replica_whose_node_was_taken_loses_its_place():
    replicas = [*SINGLES, *(large(at) for at in range(8)), large(8, serving=False)]
    made = mixed(*(on("n1", found) for found in SINGLES[:7]), on("n2", SINGLES[7]))
    assert resolve_conflicts(make_cluster_info(made, replicas)) == {large(8).id}
    decided = schedule(place(9, LARGE), Fleet.of([made, cluster("b", pool("p", 1))], replicas))
    assert [(found.replica.index, found.reason) for found in decided.dropped] == [(8, DropReason.OVERSUBSCRIBED)]
    assert [found.replica.cluster for found in decided.placements].count("b") == 1
