"""What edits and lost clusters do to replicas that run: nothing is promised twice, nothing is given up early.

A fleet is filled by its own schedules, then a deployment is edited or clusters go, and passes follow while replicas
start at random.
"""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.placement.decisions import DropReason, ReplicaDecision
from modelplane.placement.pool_usage import fits
from modelplane.placement.request import FailoverPolicy
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateVerdict
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
)

PRODUCTS = ("H200", "H100")
MAX_PASSES = 16
SERVING = {"serving": True, "created": "2026-01-01T00:00:00Z"}
sizes = st.sampled_from([1, 2, 4, 8])
chosen = st.sampled_from([(), (), (product_is("H200"),), (product_is("H100"),)])
heavy = settings(max_examples=100)


@st.composite
def clusters(draw):
    return [
        cluster(
            f"c{at}",
            *(
                pool(f"p{number}", draw(st.integers(1, 2)), hardware(kind(product=draw(st.sampled_from(PRODUCTS)))))
                for number in range(draw(st.integers(1, 2)))
            ),
            labels={"zone": draw(st.sampled_from("ab"))},
            quotas=draw(st.sampled_from([(), (), (("team", 12),)])),
            queue=draw(st.sampled_from([None, None, QueueInfo("q", 16)])),
        )
        for at in range(draw(st.integers(1, 3)))
    ]


@st.composite
def wishes(draw, name):
    nodes = draw(st.sampled_from([1, 1, 2]))
    return place(draw(st.integers(1, 6)), engine(request(draw(sizes), *draw(chosen)), nodes=nodes), name=name)


@st.composite
def settled(draw, *, serving=None):
    """A fleet that three deployments filled, and what they asked for."""
    fleet, asks = Fleet.of(draw(clusters())), [draw(wishes(name)) for name in "xyz"]
    for asked in asks:
        placed = [
            msgspec.structs.replace(
                p.replica, created=SERVING["created"], serving=draw(st.booleans()) if serving is None else serving
            )
            for p in schedule(asked, fleet).placements
        ]
        fleet = fleet.with_replicas(placed)
    return fleet, asks


@st.composite
def edits(draw):
    """Mostly growth, since that is what a full fleet bears worst; otherwise anything may change."""
    fleet, asks = draw(settled())
    known = draw(st.sampled_from(asks))
    edited = draw(wishes(known.deployment.name))
    if draw(st.sampled_from([True, True, False])):
        (before,) = known.engines
        (wanted,) = before.members[0].requests
        bigger = draw(st.sampled_from([size for size in (1, 2, 4, 8) if size > wanted.count] or [8]))
        grown = engine(request(bigger, *wanted.selectors), nodes=before.members[0].nodes)
        edited = msgspec.structs.replace(known, engines=(grown,))
    where = draw(st.sampled_from([None, None, labelled(zone="a")]))
    return fleet, asks, msgspec.structs.replace(edited, cluster_selector=where)


def follow(fleet, asked, decided, starts):
    """The fleet once the schedule is in force, with what `starts` names serving."""
    come = [
        msgspec.structs.replace(
            p.replica, serving=p.replica.serving or starts(p.replica), created=p.replica.created or SERVING["created"]
        )
        for p in decided.placements
    ]
    return fleet.with_replicas(come, [held.id for held in fleet.owned_by(asked.deployment)])


def overdrawn(fleet):
    """Pools, quotas and queues that more is promised of than they have."""
    for name, info in fleet.infos.items():
        for where, use in zip(info.kinds, info.usages, strict=True):
            if use and not fits(where.counts, where.nodes, use, packed=where.packed):
                yield name, "pool"
        left = info.profile.quota_left("team")
        if left is not None and left[0] < 0:
            yield name, "quota"
        if (info.profile.queue_left("team") or 0) < 0:
            yield name, "queue"


@pytest.mark.slow
@heavy
@given(edits(), st.randoms(use_true_random=False))
def test_no_edit_promises_anything_twice_and_it_settles(world, random):
    fleet, _, edited = world
    assert list(overdrawn(fleet)) == []
    before = None
    for at in range(MAX_PASSES):
        decided = schedule(edited, fleet)
        # Half of the passes see replicas start at random, so that every mixture comes up; then all of them do.
        fleet = follow(fleet, edited, decided, lambda _, at=at: at >= MAX_PASSES // 2 or random.random() < 0.6)
        assert list(overdrawn(fleet)) == []
        after = [(p.replica.id, p.replica.assignments, p.decision) for p in decided.placements]
        if at > MAX_PASSES // 2 and after == before:
            return
        before = after
    raise AssertionError("did not settle")


@pytest.mark.slow
@heavy
@given(edits())
def test_an_edit_gives_up_no_more_than_one_that_serves_at_a_time(world):
    fleet, _, edited = world
    decided = schedule(edited, fleet)
    before = sum(held.serving for held in fleet.owned_by(edited.deployment))
    after = sum(p.replica.serving for p in decided.placements)
    assert after >= min(before, edited.replicas) - 1


@pytest.mark.slow
@heavy
@given(settled(), st.data())
def test_clusters_that_go_take_no_replica_along_before_a_successor_serves(world, data):
    fleet, asks = world
    asked = data.draw(st.sampled_from(asks))
    gone = data.draw(st.sets(st.sampled_from(sorted(fleet.infos)), min_size=1))
    for name in gone:
        fleet = fleet.without_cluster(name)
    wanted = min(asked.replicas, sum(held.serving for held in fleet.owned_by(asked.deployment)))
    for _ in range(MAX_PASSES):
        decided = schedule(asked, fleet)
        assert sum(p.replica.serving for p in decided.placements) >= wanted
        fleet = follow(fleet, asked, decided, lambda held: held.cluster not in gone)
    assert decided.dropped == ()
    lost = [p for p in decided.placements if p.replica.cluster in gone]
    assert len(decided.placements) <= asked.replicas or not lost
    assert schedule(msgspec.structs.replace(asked, replicas=0), fleet).placements == ()


@pytest.mark.slow
@heavy
@given(settled(), st.data(), st.randoms(use_true_random=False))
def test_clusters_that_say_nothing_lose_nothing_however_long_it_lasts_and_in_whatever_order_they_come(
    world, data, random
):
    fleet, asks = world
    quiet = st.sampled_from(
        [{}, {"ready": False}, {"ready": False, "pools": (), "fault": "status: expected an object"}]
    )
    found = [msgspec.structs.replace(c, **data.draw(quiet)) for c in fleet.clusters]
    held = list(fleet.replicas)
    random.shuffle(found)
    random.shuffle(held)
    for asked in asks:
        decided = schedule(asked, Fleet.of(found, held), now=1e12)
        assert decided.dropped == ()
        kept = [p.replica.id for p in decided.placements if p.decision is ReplicaDecision.KEPT]
        assert kept == [replica.id for replica in fleet.owned_by(asked.deployment)]


def test_replicas_that_start_in_the_wrong_place_leave_where_their_room_was_given_away():
    starting = [replica("a", at, assignment("p", claim(4)), created="2026-01-01T00:00:00Z") for at in range(2)]
    fleet, asked = Fleet.of([cluster("a", pool("p", 1))], starting), place(3, engine(request(8)))
    decided = schedule(asked, fleet)
    assert list(overdrawn(follow(fleet, asked, decided, lambda _: False))) == []
    assert [(p.replica.index, p.decision) for p in decided.placements] == [(2, ReplicaDecision.NEW)]
    assert [d.reason for d in decided.dropped] == [DropReason.REPLACED] * 2


def test_of_those_in_the_wrong_place_one_makes_way_whose_leaving_helps():
    old = assignment("p", claim(8), engine_name="old")
    held = [replica("a", 0, old, **SERVING), replica("z", 0, old, cluster_missing=True, **SERVING)]
    decided = schedule(place(2, engine(request(8))), Fleet.of([cluster("a", pool("p", 1))], held))
    assert [(*p.replica.id[1:], p.decision) for p in decided.placements] == [
        ("a", 1, ReplicaDecision.NEW),
        ("z", 0, ReplicaDecision.MOVING),
    ]


def test_a_node_that_is_away_takes_no_promise_back():
    away = msgspec.structs.replace(pool("p", 1), desired_nodes=2)
    starting = [replica("a", at, assignment("p", claim(8)), created="2026-01-01T00:00:00Z") for at in range(2)]
    decided = schedule(place(3, engine(request(8))), Fleet.of([cluster("a", away)], starting))
    assert [p.decision for p in decided.placements] == [ReplicaDecision.KEPT, ReplicaDecision.KEPT]
    assert (decided.dropped, decided.pending) == ((), 1)


@pytest.mark.parametrize("serving", [True, False])
def test_a_replica_that_did_not_start_yet_hides_no_device_that_others_hold(serving):
    """Four of eight are promised and four are held by others: nothing is left, whether or not the four are in use."""
    held = msgspec.structs.replace(pool("p", 1), held_by_others=(("gpu", 4),))
    promised = replica("a", 0, assignment("p", claim(4)), name="other", created=SERVING["created"], serving=serving)
    where = cluster("a", held, queue=QueueInfo("q", 8, 4))
    for fleet in (Fleet.of([where], [promised]), Fleet.of([where]).with_replicas([promised])):
        assert schedule(place(1, engine(request(1)), name="new"), fleet).pending == 1
        assert fleet.infos["a"].profile.queue_left("team") == 0


def test_devices_that_others_hold_are_counted_by_kind_and_never_of_synthetic_ones():
    mixed = hardware(kind("a", 8, product="H200"), kind("b", 8, product="H100"), kind("fabric", 8, device_class=None))
    seen = msgspec.structs.replace(pool("p", 1, mixed), held_by_others=(("a", 8), ("fabric", 8), ("gone", 3)))
    fleet = Fleet.of([cluster("a", seen)])
    assert schedule(place(1, engine(request(8, product_is("H100")))), fleet).pending == 0
    assert schedule(place(1, engine(request(1, product_is("H200")))), fleet).pending == 1


WAITING = {"created": "2026-01-01T00:00:00Z", "idle_since": 1000.0}


def short(nodes, *, since, name="p", desired_nodes=2):
    return msgspec.structs.replace(pool(name, nodes), desired_nodes=desired_nodes, short_since=since)


@pytest.mark.parametrize(
    ("where", "held", "now", "placements"),
    [
        pytest.param([cluster("a", short(0, since=1000.0)), cluster("b")], WAITING, 1299.0, ["a Kept"], id="a reboot"),
        pytest.param(
            [cluster("a", short(0, since=1000.0)), cluster("b")], WAITING, 1300.0, ["b New"], id="after grace"
        ),
        pytest.param(
            [cluster("a", short(0, since=1000.0))], WAITING, 1300.0, ["a Moving"], id="nowhere to go: it stays"
        ),
        pytest.param(
            [cluster("a", short(0, since=1200.0)), cluster("b")], WAITING, 1300.0, ["a Kept"], id="loads for long"
        ),
        pytest.param(
            [cluster("a", short(0, since=None)), cluster("b")], WAITING, 9e9, ["a Kept"], id="not known since when"
        ),
        pytest.param(
            [cluster("a", short(1, since=1000.0)), cluster("b")], WAITING, 9e9, ["a Kept"], id="what is there suffices"
        ),
        pytest.param(
            [cluster("a", short(0, since=1000.0)), cluster("b")], SERVING, 9e9, ["a Kept"], id="a cordon: it serves"
        ),
        pytest.param(
            [cluster("a", short(0, since=1000.0)), cluster("b")], {}, 9e9, ["a Kept"], id="it was only just decided"
        ),
        pytest.param(
            [cluster("a", msgspec.structs.replace(pool("p", 1), held_by_others=(("gpu", 1),))), cluster("b")],
            WAITING,
            1300.0,
            ["b New"],
            id="others took a device of its node",
        ),
    ],
)
def test_a_replica_that_cannot_run_where_it_is_moves_after_its_grace(where, held, now, placements):
    mine = replica("a", 0, assignment("p", claim(8)), **held)
    decided = schedule(place(1, engine(request(8))), Fleet.of(where, [mine]), now)
    assert [f"{p.replica.cluster} {p.decision.value}" for p in decided.placements] == placements
    assert decided.pending == 0


def test_a_pass_is_repeated_when_the_grace_of_a_replica_that_cannot_run_is_over():
    fleet = Fleet.of([cluster("a", short(0, since=1100.0))], [replica("a", 0, assignment("p", claim(8)), **WAITING)])
    assert schedule(place(1, engine(request(8))), fleet, 1150.0).requeue_after_s == 250.0
    (stays,) = schedule(place(1, engine(request(8))), fleet, 1400.0).placements
    assert stays.why == "it cannot run: pool p has 0 of 2 nodes"
    never = place(1, engine(request(8)), failover=FailoverPolicy(replace=False))
    assert schedule(never, fleet, 9e9).placements[0].decision is ReplicaDecision.KEPT


def test_of_those_on_a_pool_that_lost_a_node_only_who_comes_last_moves():
    ours = [replica("a", at, assignment("p", claim(8)), **(SERVING if at == 1 else WAITING)) for at in range(3)]
    where = [cluster("a", short(2, since=1000.0, desired_nodes=3)), cluster("b")]
    decided = schedule(place(3, engine(request(8))), Fleet.of(where, ours), 1300.0)
    assert [(*p.replica.id[1:], p.decision) for p in decided.placements] == [
        ("a", 0, ReplicaDecision.KEPT),
        ("a", 1, ReplicaDecision.KEPT),
        ("b", 0, ReplicaDecision.NEW),
    ]


@pytest.mark.parametrize(
    ("quota", "used", "may_pass"),
    [pytest.param(4, 0, False, id="too small for good"), pytest.param(8, 4, True, id="too full as things are")],
)
def test_a_queue_that_is_too_small_is_told_from_one_that_is_full(quota, used, may_pass):
    fleet = Fleet.of([cluster("a", queue=QueueInfo("q", quota, used))])
    (found,) = [c for c in schedule(place(1, engine(request(8))), fleet).trace.candidates() if c.pool]
    assert (found.filter, found.may_pass) == ("Queue", may_pass)
    assert found.reason == f"needs 8 devices; the cluster's queue has 4 of {quota} left"


def test_a_replica_with_several_engines_on_a_pool_is_one_replica():
    asked = place(1, engine(request(1)), engine(request(1), name="prefill"))
    found = survey(asked, Fleet.of([cluster("a", pool(nodes=4))])).trace.candidates()
    assert [c.reason for c in found if c.verdict is CandidateVerdict.CHOSEN] == ["holds a replica"]


@pytest.mark.parametrize("may_preempt", [False, True])
def test_the_room_of_one_that_makes_way_takes_as_many_as_fit(may_preempt):
    priorities = (("gold", 100), ("silver", 10))
    where = cluster("a", pool("p", 1), pool("q", 1), priorities=priorities)
    leaving = replica("a", 0, assignment("p", claim(8), engine_name="old"), priority="gold", **SERVING)
    other = replica("a", 0, assignment("q", claim(8)), name="other", priority="silver", **SERVING)
    asked = place(2, engine(request(4)), priority="gold", may_preempt=may_preempt)
    decided = schedule(asked, Fleet.of([where], [leaving, other]))
    assert [(p.replica.index, p.decision) for p in decided.placements] == [
        (1, ReplicaDecision.NEW),
        (2, ReplicaDecision.NEW),
    ]
    assert [d.replica.index for d in decided.dropped] == [0]
    assert decided.preemption is None
