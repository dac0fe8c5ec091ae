"""Moves for a better place: opted into, one at a time, and never at the expense of what serves."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.timestamps import timestamp
from modelplane.placement.decisions import DropReason, ReplicaDecision
from modelplane.placement.request import RebalancePolicy, SpreadRule
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Price
from modelplane.testing.fleets import assignment, claim, cluster, engine, labelled, place, pool, replica, request

WHOLE = engine(request(8))
TIERS = labelled(tier="owned"), labelled(tier="spot")
BORN, NOW = 1_790_000_000.0, 1_790_003_600.0
TWO_ENGINES = assignment("p", claim(8)), assignment("q", claim(8), engine_name="draft")
EVERYTHING = RebalancePolicy(tier=True, spread=True, cost=True)


def made(name, tier="owned", nodes=4, price=None):
    return cluster(name, pool("p", nodes, price=price), labels={"tier": tier})


def held(*clusters, created=BORN, **fields):
    counts, found = Counter(), []
    for name in clusters:
        where = assignment("p", claim(8))
        known = {"serving": True, "created": timestamp(created), **fields}
        found.append(replica(name, known.pop("index", counts[name]), where, **known))
        counts[name] += 1
    return found


def asked(replicas, policy, **fields):
    return place(replicas, WHOLE, rebalance=policy, **fields)


def moves(decided):
    """Where new replicas go, and who moves why."""
    placed = [p.replica.cluster for p in decided.placements if p.decision is ReplicaDecision.NEW]
    return placed, [(p.replica.cluster, p.why) for p in decided.placements if p.decision is ReplicaDecision.MOVING]


CASES = [
    pytest.param(
        asked(2, RebalancePolicy(tier=True), tiers=TIERS),
        [made("a", "spot"), made("b")],
        held("a", "b"),
        (["b"], [("a", "a place in tier 1 is free; it is in tier 2")]),
        id="fail back to an earlier tier",
    ),
    pytest.param(
        asked(2, RebalancePolicy(tier=True), tiers=TIERS),
        [made("a", "spot"), made("b", nodes=1)],
        held("a", "b"),
        ([], []),
        id="the earlier tier is full",
    ),
    pytest.param(
        asked(4, RebalancePolicy(spread=True)),
        [made("a"), made("b")],
        held("a", "a", "a", "b"),
        (["b"], [("a", "its cluster has 3 replicas and cluster b has 1")]),
        id="two replicas less",
    ),
    pytest.param(
        asked(4, RebalancePolicy(spread=True, interval_s=NOW - BORN)),
        [made("a"), made("b")],
        held("a", "a", "a", "b"),
        (["b"], [("a", "its cluster has 3 replicas and cluster b has 1")]),
        id="all are just as old as the interval",
    ),
    pytest.param(
        asked(3, RebalancePolicy(spread=True)),
        [made("a"), made("b")],
        held("a", "a", "b"),
        ([], []),
        id="one replica less brings nothing",
    ),
    pytest.param(
        asked(1, RebalancePolicy(cost=True, min_saving=0.2)),
        [made("a", price=100.0), made("b", price=80.0)],
        held("a"),
        (["b"], [("a", "a place costs 80 USD per hour; its place costs 100")]),
        id="cheaper by the stated share",
    ),
    pytest.param(
        asked(1, RebalancePolicy(cost=True, min_saving=0.25)),
        [made("a", price=100.0), made("b", price=80.0)],
        held("a"),
        ([], []),
        id="not cheap enough",
    ),
    pytest.param(
        asked(1, RebalancePolicy(cost=True, min_saving=0.2)),
        [made("a", price=2.0), made("b", price=1.7)],
        held("a"),
        ([], []),
        id="not cheap enough, where all are cheap",
    ),
    pytest.param(
        asked(1, RebalancePolicy(cost=True, min_saving=0.0)),
        [made("a", price=100.0), made("b", price=100.0)],
        held("a"),
        ([], []),
        id="as dear",
    ),
    pytest.param(
        asked(1, RebalancePolicy(cost=True, min_saving=1.0)),
        [made("a", price=1.0), made("b", price=1e-9)],
        held("a"),
        (["b"], [("a", "a place costs 1e-09 USD per hour; its place costs 1")]),
        id="free of charge but for rounding",
    ),
    pytest.param(
        asked(2, RebalancePolicy(cost=True)),
        [cluster("a", *(pool(name, 1, price=price) for name, price in (("p", 100.0), ("q", 50.0), ("r", 10.0))))],
        [*held("a"), msgspec.structs.replace(held("a", index=1)[0], assignments=(assignment("q", claim(8)),))],
        (["a"], [("a", "a place costs 10 USD per hour; its place costs 100")]),
        id="the dearest of a cluster moves",
    ),
    pytest.param(
        asked(2, RebalancePolicy(cost=True)),
        [made("a", price=100.0), made("b", price=120.0), made("c", price=10.0)],
        held("a", "b"),
        (["c"], [("b", "a place costs 10 USD per hour; its place costs 120")]),
        id="the dearest of clusters with as many replicas moves",
    ),
    pytest.param(
        asked(3, RebalancePolicy(cost=True)),
        [made("a", price=50.0), made("b", price=100.0), made("c", price=10.0)],
        held("a", "a", "b"),
        (["c"], [("b", "a place costs 10 USD per hour; its place costs 100")]),
        id="the dearest moves even from a cluster with fewer replicas",
    ),
    *(
        pytest.param(
            place(1, WHOLE, engine(request(8), name="draft"), rebalance=RebalancePolicy(cost=True)),
            [
                cluster("a", pool("p", price=100.0), msgspec.structs.replace(pool("q"), price=price)),
                cluster("b", pool("p", price=10.0), pool("q", price=10.0)),
            ],
            [replica("a", 0, *TWO_ENGINES, serving=True, created=timestamp(BORN))],
            expected,
            id=f"two engines, one on a pool {which}",
        )
        for which, price, expected in (
            ("with a price", Price(50.0), (["b"], [("a", "a place costs 20 USD per hour; its place costs 150")])),
            ("without a price", None, ([], [])),
            ("with a price in another currency", Price(50.0, "EUR"), ([], [])),
        )
    ),
    pytest.param(
        asked(2, RebalancePolicy(cost=True)),
        [made("a", price=100.0), made("b", price=10.0)],
        held("a", "b"),
        ([], []),
        id="cheaper, and the spread would get worse",
    ),
    pytest.param(
        asked(4, RebalancePolicy(cost=True)),
        [made("a"), made("b")],
        held("a", "a", "a", "b"),
        ([], []),
        id="a trigger that was not asked for",
    ),
]


def test_nothing_moves_that_is_not_asked_for():
    assert RebalancePolicy() == RebalancePolicy(tier=False, spread=False, cost=False, min_saving=0.2, interval_s=600.0)
    replicas, clusters = held(*UNEVEN), [made("a", "spot", price=9.0), made("b", price=1.0)]
    assert moves(schedule(asked(4, RebalancePolicy(), tiers=TIERS), Fleet.of(clusters, replicas), NOW)) == ([], [])


@pytest.mark.parametrize(("wanted", "clusters", "replicas", "expected"), CASES)
def test_a_replica_moves_to_a_better_place_where_that_is_asked_for(wanted, clusters, replicas, expected):
    fleet = Fleet.of(clusters, replicas)
    assert moves(schedule(wanted, fleet, NOW)) == expected
    silent = msgspec.structs.replace(wanted, rebalance=None)
    assert moves(schedule(silent, fleet, NOW)) == ([], [])


SPREAD = asked(4, RebalancePolicy(spread=True, interval_s=600))
UNEVEN = "a", "a", "a", "b"


@pytest.mark.parametrize(
    "replicas",
    [
        held(*UNEVEN, created=NOW - 599),
        [*held("a", "a", "a"), *held("b", created=NOW - 1)],
        [*held("a", "a", "a"), *held("b", serving=False)],
        held("a", "a", "a"),
    ],
    ids=["all are young", "one is young", "one does not serve", "one is not placed yet"],
)
def test_nothing_moves_while_something_is_young_or_under_way(replicas):
    decided = schedule(SPREAD, Fleet.of([made("a"), made("b")], replicas), NOW)
    assert [p for p in decided.placements if p.decision is ReplicaDecision.MOVING] == []


def test_the_next_cycle_is_due_when_the_youngest_is_old_enough_or_after_the_interval():
    young = Fleet.of([made("a"), made("b")], held(*UNEVEN, created=NOW - 400))
    assert schedule(SPREAD, young, NOW).requeue_after_s == pytest.approx(200, abs=1)
    even = Fleet.of([made("a"), made("b")], held("a", "a", "b", "b"))
    assert schedule(SPREAD, even, NOW).requeue_after_s == 600


def test_a_replica_stays_until_its_successor_serves():
    fleet = Fleet.of([made("a"), made("b")], held(*UNEVEN))
    first = schedule(SPREAD, fleet, NOW)
    (successor,) = [p.replica for p in first.placements if p.decision is ReplicaDecision.NEW]
    born = msgspec.structs.replace(successor, created=timestamp(NOW))
    waiting = schedule(SPREAD, fleet.with_replicas([born]), NOW + 5)
    assert [p.replica.id for p in waiting.placements] == [p.replica.id for p in first.placements]
    assert waiting.dropped == ()
    done = schedule(SPREAD, fleet.with_replicas([msgspec.structs.replace(born, serving=True)]), NOW + 60)
    assert Counter(p.replica.cluster for p in done.placements) == {"a": 2, "b": 2}
    assert [(d.replica.cluster, d.reason) for d in done.dropped] == [("a", DropReason.REPLACED)]


def test_a_replica_too_many_of_a_roll_out_is_no_successor_of_a_move():
    replicas = [*held(*UNEVEN), *held("b", created=NOW, serving=False, index=1)]
    fleet = Fleet.of([made("a"), made("b")], replicas)
    moving = schedule(SPREAD, fleet, NOW + 5)
    assert [(p.replica.cluster, p.decision) for p in moving.placements if p.decision is not ReplicaDecision.KEPT] == [
        ("a", ReplicaDecision.MOVING)
    ]
    surge = schedule(msgspec.structs.replace(SPREAD, rolling_out=True), fleet, NOW + 5)
    assert {p.decision for p in surge.placements} == {ReplicaDecision.KEPT}
    assert [(d.replica.cluster, d.replica.index, d.reason) for d in surge.dropped] == [("b", 1, DropReason.SCALED_DOWN)]


def test_a_replica_too_many_is_no_successor_while_another_does_not_serve():
    starting = [*held("a", serving=False, index=2), *held("b", serving=False, created=NOW, index=1)]
    fleet = Fleet.of([made("a"), made("b")], [*held("a", "a", "b"), *starting])
    decided = schedule(SPREAD, fleet, NOW + 5)
    assert {p.decision for p in decided.placements} == {ReplicaDecision.KEPT}
    assert [(d.replica.cluster, d.replica.index, d.reason) for d in decided.dropped] == [
        ("a", 2, DropReason.SCALED_DOWN)
    ]


def test_a_replica_too_many_that_is_in_no_better_place_is_scaled_down():
    replicas = [*held("a", "a", "b", "b"), *held("a", created=NOW, serving=False, index=2)]
    decided = schedule(SPREAD, Fleet.of([made("a"), made("b")], replicas), NOW + 5)
    assert moves(decided) == ([], [])
    assert [(d.replica.cluster, d.replica.index, d.reason) for d in decided.dropped] == [
        ("a", 2, DropReason.SCALED_DOWN)
    ]


def test_a_replica_on_a_cluster_that_is_not_listed_does_not_move():
    replicas = held("gone", "gone", "gone", "a")
    fleet = Fleet.of([made("a"), made("b")], replicas)
    assert moves(schedule(SPREAD, fleet, NOW)) == ([], [])
    young = [*replicas, *held("b", created=NOW, serving=False)]
    decided = schedule(SPREAD, Fleet.of([made("a"), made("b")], young), NOW + 5)
    assert (moves(decided), [d.replica.cluster for d in decided.dropped]) == (([], []), ["b"])


def test_a_successor_on_a_cluster_that_is_not_listed_replaces_nobody():
    replicas = [*held(*UNEVEN), *held("gone", created=NOW, serving=False)]
    decided = schedule(SPREAD, Fleet.of([made("a"), made("b")], replicas), NOW + 5)
    assert (moves(decided), [d.replica.cluster for d in decided.dropped]) == (([], []), ["gone"])


def test_a_better_place_that_a_spread_rule_refuses_is_none():
    """Cluster c is cheaper, and its zone has as many replicas as the rule allows."""
    zones = {"a": "x", "b": "y", "c": "y"}
    clusters = [
        cluster(name, pool("p", 4, price=10.0 if name == "c" else 40.0), labels={"zone": zone})
        for name, zone in zones.items()
    ]
    replicas = held("a", "b", "b")
    for rules, expected in (((), ["c"]), ((SpreadRule("zone", 1),), [])):
        wanted = asked(3, RebalancePolicy(cost=True), spread=rules)
        assert moves(schedule(wanted, Fleet.of(clusters, replicas), NOW))[0] == expected


def test_nothing_moves_for_a_better_place_during_a_roll_out():
    fleet = Fleet.of([made("a"), made("b")], held(*UNEVEN))
    assert moves(schedule(SPREAD, fleet, NOW)) != ([], [])
    assert moves(schedule(msgspec.structs.replace(SPREAD, rolling_out=True), fleet, NOW)) == ([], [])


fleets = st.lists(
    st.tuples(st.sampled_from(["owned", "spot"]), st.integers(0, 3), st.sampled_from([None, 10.0, 40.0])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(fleets, st.lists(st.integers(0, 3), min_size=1, max_size=6), st.booleans())
def test_moves_come_to_an_end_and_never_interrupt(shapes, where, tiers):
    clusters = [made(f"c{at}", tier, nodes, price) for at, (tier, nodes, price) in enumerate(shapes)]
    room = {found.name: found.pools[0].nodes for found in clusters}
    names = [f"c{at % len(clusters)}" for at in where]
    names = [name for at, name in enumerate(names) if names[:at].count(name) < room[name]]
    wanted = asked(len(names), EVERYTHING, tiers=TIERS if tiers else ())
    fleet, now = Fleet.of(clusters, held(*names)), NOW
    for _ in range(60):
        decided = schedule(wanted, fleet, now)
        assert sum(p.replica.serving for p in decided.placements) >= len(names)
        assert len([p for p in decided.placements if p.decision is ReplicaDecision.NEW]) <= 1
        before = {found.id: found for found in fleet.owned_by(wanted.deployment)}
        after = {p.replica.id: p.replica for p in decided.placements}
        come = [msgspec.structs.replace(r, created=timestamp(now)) for r in after.values() if r.id not in before]
        started = [msgspec.structs.replace(r, serving=True) for r in after.values() if not r.serving and r.id in before]
        if after.keys() == before.keys() and not started:
            return
        fleet = fleet.with_replicas([*come, *started], [found for found in before if found not in after])
        now += 601
    raise AssertionError("did not come to an end")
