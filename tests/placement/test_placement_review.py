"""The review by itself: which replicas stay, move, are dropped or leave, and when to look again."""

import msgspec
import pytest

from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.matching import engine_allocations
from modelplane.placement.request import FailoverPolicy
from modelplane.placement.review import is_within, make_assignment, review, too_much
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import FOREVER
from modelplane.placement.values import QueueInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    labelled,
    place,
    pool,
    product_is,
    replica,
    request,
    taint,
    tolerate,
)

GONE = taint("drain", "NoExecute")
SHORT = msgspec.structs.replace(pool(nodes=0), desired_nodes=1, short_since=100.0)
SHARED = msgspec.structs.replace(pool(nodes=1), held_by_others=(("gpu", 8),))
IDLE = replica("a", idle_since=50.0)


def reviewed(asked, clusters, held, now=1000.0):
    state = SchedulingCycle(asked, Fleet.of(clusters, held), now)
    return state, review(state)


def shown(found):
    return (
        [each.index for each in found.kept],
        [(each.index, why) for each, why in found.moving],
        [(each.replica.index, each.reason.value, each.why) for each in found.dropped],
        [each.index for each in found.leaving],
        found.requeue_at,
    )


def kept(*indexes, until=FOREVER):
    return list(indexes), [], [], [], until


def moving(why, index=0, until=FOREVER):
    return [], [(index, why)], [], [], until


def dropped(reason, why):
    return [], [], [(0, reason, why)], [], FOREVER


@pytest.mark.parametrize(
    ("asked", "clusters", "held", "expected"),
    [
        pytest.param(place(0), [cluster("a")], [replica("a", at) for at in range(3)], kept(0, 1, 2), id="all is well"),
        pytest.param(place(1), [cluster("a")], [replica("a", name="other")], kept(), id="others are not reviewed"),
        pytest.param(
            place(1), [cluster("a")], [replica("a", leaving=True)], ([], [], [], [0], FOREVER), id="being deleted"
        ),
        pytest.param(place(1), [], [replica("a")], kept(0), id="a cluster that is not listed"),
        pytest.param(
            place(1, cluster_selector=labelled(tier="x")),
            [],
            [replica("a"), replica("a", 1)],
            kept(0, 1),
            id="a cluster that is not listed may still match the clusterSelector",
        ),
        pytest.param(
            place(1),
            [cluster("a", faulty=((replica("a").digest, "device gpu-3 has the taint x"),))],
            [replica("a"), replica("a", index=1)],
            ([1], [(0, "it has a faulty device: device gpu-3 has the taint x")], [], [], FOREVER),
            id="a faulty device",
        ),
        pytest.param(
            place(1), [], [replica("a", cluster_missing=True)], moving("cluster a does not exist"), id="no cluster"
        ),
        pytest.param(
            place(1), [cluster("a")], [replica("a", cluster_missing=True)], kept(0), id="a cluster that is back"
        ),
        pytest.param(
            place(1),
            [cluster("a")],
            [replica("a", fault="no index"), replica("a", 1)],
            kept(0, 1),
            id="fault",
        ),
        pytest.param(
            place(1),
            [],
            [replica("a", fault="x", cluster_missing=True)],
            moving("cluster a does not exist"),
            id="fault, no cluster",
        ),
        pytest.param(
            place(1),
            [cluster("a", pool("other"), unpublished_pools=("h200",))],
            [replica("a")],
            kept(0),
            id="a pool that is declared and not published",
        ),
        pytest.param(
            place(1),
            [cluster("a", pool("other"), unpublished_pools=("b200",))],
            [replica("a")],
            moving("its cluster has no pool h200"),
            id="a pool that is neither declared nor published",
        ),
        pytest.param(
            place(2),
            [
                cluster("a", pool("other"), unpublished_pools=("h200",)),
                cluster("b", pool("other"), unpublished_pools=("b200",)),
            ],
            [replica("a"), replica("b", 1)],
            ([0], [(1, "its cluster has no pool h200")], [], [], FOREVER),
            id="declared on one cluster and removed from another",
        ),
        pytest.param(place(1), [cluster("a", fault="x")], [replica("a")], kept(0), id="a cluster that cannot be read"),
        pytest.param(
            place(1, cluster_selector=labelled(tier="x")),
            [cluster("a")],
            [replica("a")],
            moving("its cluster no longer matches the clusterSelector"),
            id="selector",
        ),
        pytest.param(
            place(1, required=(labelled(tier="x"),)),
            [cluster("a")],
            [replica("a")],
            moving("its cluster matches none of the required selectors"),
            id="affinity",
        ),
        pytest.param(
            place(1, required=(labelled(tier="x"), labelled(tier="y"))),
            [cluster("a", labels={"tier": "y"})],
            [replica("a")],
            kept(0),
            id="one of two required selectors",
        ),
        pytest.param(
            place(1, engine(name="other")),
            [cluster("a")],
            [replica("a")],
            moving("the deployment has other engines"),
            id="engines",
        ),
        pytest.param(
            place(1),
            [cluster("a")],
            [replica("a", 0, assignment("gone"))],
            moving("its cluster has no pool gone"),
            id="pool",
        ),
        pytest.param(
            place(1, engine(request(9))),
            [cluster("a")],
            [replica("a")],
            moving("pool h200: needs 9 x gpu; a node has 8 x gpu"),
            id="devices",
        ),
        pytest.param(
            place(1),
            [cluster("a", taints=(GONE,))],
            [replica("a")],
            moving("taint drain drains cluster a"),
            id="taint",
        ),
        pytest.param(
            place(1),
            [cluster("a", taints=(taint("drain", "NoExecute", since=-2600.0),))],
            [replica("a", serving=True)],
            dropped("Drained", "taint drain drains cluster a; its deadline is over and no successor serves"),
            id="the hour of a taint is over",
        ),
        pytest.param(
            place(1, tolerations=(tolerate("drain", seconds=60),)),
            [cluster("a", taints=(taint("drain", "NoExecute", since=980.0),))],
            [replica("a")],
            kept(0, until=1040.0),
            id="tolerated for a minute",
        ),
        pytest.param(
            place(1),
            [cluster("a", pool(taints=(GONE,)), pool("other"))],
            [replica("a"), replica("a", 1, assignment("other"))],
            ([1], [(0, "taint drain drains pool h200 of cluster a")], [], [], FOREVER),
            id="taint of one pool",
        ),
        pytest.param(
            place(1),
            [cluster("a", ready=False, unready_since=700.0)],
            [replica("a")],
            moving("its cluster has not been ready for more than 300 s"),
            id="unready for longer than its grace",
        ),
        pytest.param(
            place(1),
            [cluster("a", ready=False, unready_since=800.0)],
            [replica("a")],
            kept(0, until=1100.0),
            id="grace",
        ),
        pytest.param(
            place(1, failover=FailoverPolicy(replace=False)),
            [cluster("a", ready=False, unready_since=0.0)],
            [replica("a")],
            kept(0),
            id="not to be replaced",
        ),
        pytest.param(
            place(1), [cluster("a", SHORT)], [IDLE], moving("it cannot run: pool h200 has 0 of 1 nodes"), id="no node"
        ),
        pytest.param(
            place(1),
            [cluster("a", SHARED)],
            [IDLE],
            moving("it cannot run: pool h200 has 8 devices that are missing or that others hold"),
            id="devices of others",
        ),
        pytest.param(place(1), [cluster("a", SHORT)], [replica("a", serving=True)], kept(0), id="it serves"),
        pytest.param(
            place(1, engine(name="one"), engine(name="two")),
            [cluster("a", pool("other"), SHORT)],
            [replica("a", 0, assignment("other", engine_name="one"), assignment(engine_name="two"), idle_since=50.0)],
            moving("it cannot run: pool h200 has 0 of 1 nodes"),
            id="no node for one of two engines",
        ),
        pytest.param(
            place(3, outdated=frozenset({("a", 1)})),
            [cluster("a")],
            [replica("a", at) for at in range(3)],
            ([0, 2], [(1, "it has an older revision")], [], [], FOREVER),
            id="one of an older revision among others",
        ),
    ],
)
def test_a_replica_stays_moves_or_goes(asked, clusters, held, expected):
    assert shown(reviewed(asked, clusters, held)[1]) == expected


EAST = cluster("a", labels={"region": "east"})
WEST = msgspec.structs.replace(EAST, name="b", labels={"region": "west"})
FIRST = replica("a")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(place(3), kept(0, 1, 2), id="all stay"),
        pytest.param(
            place(3, outdated=frozenset({("a", 1)})),
            ([0, 2], [(1, "it has an older revision")], [], [], FOREVER),
            id="one has an older revision",
        ),
        pytest.param(
            place(3, cluster_selector=labelled(region="east")),
            ([0, 1], [(2, "its cluster no longer matches the clusterSelector")], [], [], FOREVER),
            id="the label of one cluster decides",
        ),
        pytest.param(
            place(3, engine(name="other")),
            ([], [(at, "the deployment has other engines") for at in range(3)], [], [], FOREVER),
            id="none stays",
        ),
    ],
)
def test_replicas_that_share_their_assignments_on_clusters_that_share_their_pools(asked, expected):
    """Those are reviewed by what is known of the first, if nothing sets them apart."""
    held = [msgspec.structs.replace(FIRST, cluster=name, index=at) for at, name in enumerate("aab")]
    assert shown(reviewed(asked, [EAST, WEST], held)[1]) == expected


def test_one_that_leaves_is_not_taken_for_one_that_stays():
    held = [msgspec.structs.replace(FIRST, index=at, leaving=at == 1) for at in range(2)]
    assert shown(reviewed(place(1), [EAST], held)[1]) == ([0], [], [], [1], FOREVER)


def test_a_replica_grows_in_place_and_is_charged_for_it():
    state, found = reviewed(place(1, engine(request(8)), priority="gold"), [cluster("a")], [replica("a")])
    (grown,) = found.kept
    assert grown == replica("a", 0, assignment("h200", claim(8)), priority="gold")
    assert state.info("a").held[grown.id] is grown


def test_the_first_that_cannot_grow_moves_and_stays_charged_as_it_is():
    held = [replica("a", at) for at in range(2)]
    state, found = reviewed(place(2, engine(request(8))), [cluster("a", pool(nodes=1))], held)
    assert found.kept == []
    assert {why for _, why in found.moving} == {"its pool has too few free devices for its new request"}
    assert state.assumed == {}


def test_a_preempted_replica_is_dropped_and_its_successor_forgets_victims_that_are_gone():
    priorities = (("gold", 5), ("iron", 1))
    victim = replica("a", 1, name="low", priority="iron")
    winner = replica("a", 0, priority="gold", preempts=(victim.digest, "r-gone"))
    where = cluster("a", priorities=priorities)
    low = reviewed(place(1, name="low", priority="iron"), [where], [victim, winner])[1]
    assert [(each.reason.value, each.why) for each in low.dropped] == [
        ("Preempted", "a replica of higher priority preempts it")
    ]
    high = reviewed(place(1, priority="gold"), [where], [victim, winner])[1]
    assert [each.preempts for each in high.kept] == [(victim.digest,)]


def test_a_replica_beside_one_that_serves_moves_where_nodes_are_missing():
    """Both have the same assignments, and a node is there for one of them."""
    serves = msgspec.structs.replace(replica("a", 0, assignment("h200", claim(8))), serving=True)
    idle = msgspec.structs.replace(serves, index=1, serving=False, idle_since=50.0)
    short = msgspec.structs.replace(pool(nodes=1), desired_nodes=2, short_since=100.0)
    _, found = reviewed(place(2, engine(request(8))), [cluster("a", short, pool("other"))], [serves, idle])
    assert shown(found) == ([0], [(1, "it cannot run: pool h200 has 1 of 2 nodes")], [], [], FOREVER)


def test_a_replica_beside_one_like_it_moves_where_its_device_is_faulty():
    first = replica("a")
    second = msgspec.structs.replace(first, index=1)
    where = cluster("a", faulty=((second.digest, "device gpu-3 has the taint x"),))
    _, found = reviewed(place(2), [where], [first, second])
    assert shown(found) == ([0], [(1, "it has a faulty device: device gpu-3 has the taint x")], [], [], FOREVER)


def test_replicas_on_a_pool_that_is_gone_move_beside_one_that_stays():
    second = replica("a", 1, assignment("gone"))
    third = msgspec.structs.replace(second, index=2)
    _, found = reviewed(place(3), [cluster("a")], [replica("a"), second, third])
    assert shown(found) == ([0], [(at, "its cluster has no pool gone") for at in (1, 2)], [], [], FOREVER)


def test_a_replica_does_not_move_for_what_other_pools_lack():
    """Two are on one node, which another rule settles. The pool without nodes is another."""
    held = [replica("a", at, assignment("p", claim(8)), idle_since=50.0) for at in range(2)]
    _, found = reviewed(place(2, engine(request(8))), [cluster("a", pool("p", 1), SHORT)], held)
    assert shown(found) == kept(0, 1)


def test_the_deadline_of_a_drain_is_looked_at_again():
    drained = cluster("a", taints=(taint("drain", "NoExecute", since=100.0),))
    _, found = reviewed(place(1), [drained], [replica("a", serving=True)])
    assert shown(found) == moving("taint drain drains cluster a", until=3700.0)


def info_with(devices, **fields):
    held = [replica("a", 0, assignment("h200", claim(devices)))] if devices else []
    return make_cluster_info(cluster("a", pool(nodes=1), **fields), held)


@pytest.mark.parametrize(
    ("fields", "before", "after", "expected"),
    [
        ({}, 1, 8, None),
        ({}, 1, 9, "its pool has too few free devices for its new request"),
        ({"quotas": (("team", 4),)}, 1, 4, None),
        ({"quotas": (("team", 4),)}, 1, 5, "its new request exceeds the quota of namespace team"),
        ({"quotas": (("team", 4),)}, 6, 5, None),
        ({"queue": QueueInfo("q", 4)}, 1, 5, "its new request exceeds the quota of the cluster's queue"),
        ({"queue": QueueInfo("q", 4)}, 6, 5, None),
    ],
)
def test_a_change_may_exceed_the_pool_the_quota_or_the_queue_and_less_never_does(fields, before, after, expected):
    assert too_much(info_with(before, **fields), info_with(after, **fields), "team") == expected


@pytest.mark.parametrize(
    ("fields", "used", "bound", "expected"),
    [
        ({}, 0, 0, True),
        ({}, 0, 4, True),
        ({}, 4, 4, True),
        ({}, 4, 0, False),
        ({}, 3, 4, False),
        ({"quotas": (("team", 8),)}, 4, 4, True),
        ({"queue": QueueInfo("q", 8)}, 4, 0, False),
    ],
)
def test_a_cluster_is_within_another_where_nothing_is_used_more(fields, used, bound, expected):
    assert is_within(info_with(used, **fields), info_with(bound, **fields), "team") is expected


@pytest.mark.parametrize(
    ("fields", "bound", "expected"),
    [
        ({"quotas": (("team", 8),)}, {"quotas": (("team", 6),)}, True),
        ({"quotas": (("team", 6),)}, {"quotas": (("team", 8),)}, False),
        ({"queue": QueueInfo("q", 5)}, {"queue": QueueInfo("q", 4)}, True),
        ({"queue": QueueInfo("q", 4)}, {"queue": QueueInfo("q", 5)}, False),
    ],
)
def test_a_cluster_is_within_another_where_as_much_is_left_of_quotas(fields, bound, expected):
    assert is_within(info_with(4, **fields), info_with(4, **bound), "team") is expected


def test_claims_that_only_steered_are_not_recorded():
    mixed = hardware(kind("fast", 1, product="F", device_class=None), kind("gpu", 8, product="G"))
    wanted = engine(request(1, product_is("F"), name="steers"), request(2, product_is("G")))
    (allocation,) = engine_allocations(wanted, mixed)
    assert make_assignment(wanted, "p", allocation) == assignment("p", claim(2, product_is("G")))


def test_a_replica_grows_in_place_on_devices_of_another_class_where_its_own_are_short():
    """Two of four devices of class a are another's, so three of them are not free; three of class b are."""
    both = hardware(kind("a", 4, device_class="a.class"), kind("b", 4, device_class="b.class"))
    where = cluster("a", pool("p", 1, both))
    mine = replica("a", 0, assignment("p", claim(1, device_class="a.class")))
    other = replica("a", 0, assignment("p", claim(2, device_class="a.class")), name="other")
    _, found = reviewed(place(1, engine(request(3))), [where], [mine, other])
    (grown,) = found.kept
    assert [(c.count, c.device_class) for c in grown.assignments[0].members[0].claims] == [(3, "b.class")]
    _, found = reviewed(place(1, engine(request(4), request(4, name="more"))), [where], [mine, other])
    assert [why for _, why in found.moving] == ["its pool has too few free devices for its new request"]


class NoGpus:
    def refuse(self, rendering, _artifacts, /):
        return "it has no picker" if rendering == b"bare" else None


@pytest.mark.parametrize("rendering", [b"bare", b"full"])
def test_a_replica_that_its_cluster_cannot_run_any_more_moves(rendering):
    described = cluster("a", rendering=rendering)
    _, found = reviewed(place(1, check=NoGpus()), [described], [replica("a")])
    why = "cluster a cannot run it: it has no picker"
    assert shown(found) == (moving(why) if rendering == b"bare" else kept(0))
