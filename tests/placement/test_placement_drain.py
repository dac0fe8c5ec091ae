"""Drains: who leaves when, in which order, and that nothing is lost on the way."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.labels import DRAIN
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.decisions import DropReason, ReplicaDecision
from modelplane.placement.drain import DrainTurns, ReplicaDrain, _is_younger, find_drain, is_drained
from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.taints import FOREVER
from modelplane.placement.values import Effect, PlacementTaint
from modelplane.testing.fleets import assignment, cluster, key, place, pool, replica, taint, tolerate

STARTED = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T23:00:00Z"
SINCE = 1767225600.0
NOW = SINCE + 10


def draining(parallelism=1, deadline_s=None, since=SINCE):
    return PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, since, parallelism, deadline_s)


def serving(where, index=0, **fields):
    return replica(where, index, serving=True, created=EARLIER, **fields)


def decided(asked, clusters, held, now=NOW):
    found = schedule(asked, Fleet.of(clusters, held), now)
    placed = [(one.decision.value, one.replica.cluster, one.replica.index) for one in found.placements]
    return placed, [(one.reason.value, one.replica.index, one.why) for one in found.dropped], found.requeue_after_s


@pytest.mark.parametrize(
    ("taints", "pool_taints", "tolerations", "expected"),
    [
        pytest.param((), (), (), (None, FOREVER), id="nothing"),
        pytest.param((taint("a"),), (), (), (None, FOREVER), id="NoSchedule"),
        pytest.param(
            (taint("a", "NoExecute", since=SINCE),),
            (),
            (),
            (ReplicaDrain("taint a drains cluster a", 4, SINCE, SINCE + 3600), FOREVER),
            id="a taint has an hour",
        ),
        pytest.param(
            (taint("a", "NoExecute"),),
            (),
            (),
            (ReplicaDrain("taint a drains cluster a", 4, None, FOREVER), FOREVER),
            id="a taint of unknown age has no deadline yet",
        ),
        pytest.param(
            (draining(deadline_s=60.0),),
            (),
            (tolerate(DRAIN), tolerate("b")),
            (ReplicaDrain("cluster a is being drained", 1, SINCE, SINCE + 60), FOREVER),
            id="nothing tolerates a drain",
        ),
        pytest.param(
            (),
            (draining(),),
            (),
            (ReplicaDrain("pool h200 of cluster a is being drained", 1, SINCE, FOREVER), FOREVER),
            id="a pool without a deadline",
        ),
        pytest.param(
            (taint("a", "NoExecute", since=SINCE),),
            (),
            (tolerate("a", "NoExecute", seconds=60),),
            (None, SINCE + 60),
            id="tolerated for a while",
        ),
        pytest.param(
            (taint("a", "NoExecute", since=SINCE - 60),),
            (draining(deadline_s=20.0),),
            (tolerate("a", "NoExecute", seconds=60),),
            (ReplicaDrain("pool h200 of cluster a is being drained", 1, SINCE, SINCE + 20), FOREVER),
            id="of two the nearest deadline",
        ),
    ],
)
def test_what_drains_a_replica(taints, pool_taints, tolerations, expected):
    info = make_cluster_info(cluster("a", pool(taints=pool_taints), taints=taints))
    assert find_drain(replica("a"), info, tolerations, NOW) == expected


def test_a_place_is_drained_by_its_pool_and_not_by_another():
    info = make_cluster_info(cluster("a", pool(taints=(draining(),)), pool("other")))
    assert [is_drained(replica("a", 0, assignment(name)), info) for name in ("h200", "other")] == [True, False]


@pytest.mark.parametrize(
    ("others", "allowed"),
    [
        pytest.param([], 2, id="nobody is on its way"),
        pytest.param([replica("b", created=STARTED)], 2, id="one of its own is, and another may"),
        pytest.param([replica("b", at, created=STARTED) for at in range(3)], 2, id="own ones never exceed the limit"),
        pytest.param([replica("b", created=EARLIER)], 2, id="one that started before the drain does not count"),
        pytest.param(
            [replica("a", 9, name="other"), replica("b", name="other", created=STARTED)], 1, id="one of another's is"
        ),
        pytest.param(
            [replica("a", 9, name="other"), *(replica("b", at, name="other") for at in (1, 2))], 0, id="two of others'"
        ),
        pytest.param(
            [replica("a", 9, name="other"), replica("a", 8, name="other", created=STARTED)],
            2,
            id="one that starts on the drained cluster is not on its way",
        ),
        pytest.param([replica("b", name="stranger", created=STARTED)], 2, id="who is not on the cluster"),
        pytest.param([replica("b", created=STARTED, leaving=True)], 2, id="one that is deleted"),
    ],
)
def test_how_many_may_move_at_a_time(others, allowed):
    here = [serving("a", at) for at in range(4)]
    fleet = Fleet.of([cluster("a", taints=(draining(2),)), cluster("b")], [*here, *others])
    turns = DrainTurns(fleet, key())
    drain = ReplicaDrain("", 2, SINCE, FOREVER)
    assert [turns.take(each, drain) for each in here] == [True] * allowed + [False] * (4 - allowed)


def test_one_that_does_not_serve_waits_for_nobody():
    turns = DrainTurns(Fleet.of([cluster("a")], [replica("a")]), key())
    assert turns.take(replica("a"), ReplicaDrain("", 0, None, FOREVER))


def test_a_successor_that_serves_stays_while_another_deployment_has_the_turn():
    """It was deleted as one too many, so two deployments took turns for ever and a drain did not end."""
    clusters = [cluster("a", taints=(draining(),)), cluster("b"), cluster("z")]
    own = [serving("a"), serving("b"), replica("z", serving=True, created=STARTED)]
    others = [serving("a", 9, name="other"), replica("b", 9, name="other", created=STARTED)]
    placed, dropped, _ = decided(place(replicas=2), clusters, [*own, *others])
    assert (placed, dropped) == (
        [("Kept", "b", 0), ("Kept", "z", 0)],
        [("ScaledDown", 0, "the deployment wants 2 replicas")],
    )


def test_one_that_waits_its_turn_is_scaled_down_once():
    """Two are too many: the one that waits, and then another of the fullest cluster."""
    clusters = [cluster("a", pool("p", taints=(draining(),)), pool("q")), cluster("b")]
    own = [serving("b"), *(replica("a", at, assignment(name), serving=True) for at, name in enumerate("qqp"))]
    others = [
        replica("a", 9, assignment("q"), serving=True, name="other"),
        replica("b", 9, name="other", created=STARTED),
    ]
    placed, dropped, _ = decided(place(replicas=2), clusters, [*own, *others])
    why = "the deployment wants 2 replicas"
    assert (placed, dropped) == ([("Kept", "a", 0), ("Kept", "b", 0)], [("ScaledDown", 1, why), ("ScaledDown", 2, why)])


EAST, WEST = cluster("east", taints=(draining(),)), cluster("west")


@pytest.mark.parametrize(
    ("clusters", "held", "now", "expected"),
    [
        pytest.param(
            [EAST, WEST],
            [serving("east", 0), serving("east", 1)],
            NOW,
            ([("Moving", "east", 0), ("Kept", "east", 1), ("New", "west", 0)], [], 5.0),
            id="the first moves, the second waits its turn",
        ),
        pytest.param(
            [EAST, WEST],
            [serving("east", 0), serving("east", 1), replica("west", created=STARTED)],
            NOW,
            ([("Moving", "east", 0), ("Kept", "east", 1), ("Kept", "west", 0)], [], 5.0),
            id="it stays while its successor starts",
        ),
        pytest.param(
            [EAST, WEST],
            [serving("east", 0), serving("east", 1), serving("west", 0)],
            NOW,
            ([("Kept", "east", 1), ("Kept", "west", 0)], [("Replaced", 0, "cluster east is being drained")], 5.0),
            id="and leaves when it serves",
        ),
        pytest.param(
            [EAST],
            [serving("east", 0), serving("east", 1)],
            NOW,
            ([("Moving", "east", 0), ("Kept", "east", 1)], [], 5.0),
            id="without another place both stay",
        ),
        pytest.param(
            [cluster("east", taints=(draining(deadline_s=60.0),)), WEST],
            [serving("east", 0), serving("east", 1), replica("west", created=STARTED)],
            SINCE + 60,
            (
                [("Kept", "west", 0), ("New", "west", 1)],
                [
                    ("Drained", at, "cluster east is being drained; its deadline is over and no successor serves")
                    for at in (0, 1)
                ],
                None,
            ),
            id="after the deadline both leave",
        ),
        pytest.param(
            [cluster("east"), WEST],
            [serving("east", 0), serving("east", 1), replica("west", created=STARTED)],
            NOW,
            (
                [("Kept", "east", 0), ("Kept", "east", 1)],
                [("ScaledDown", 0, "the deployment wants 2 replicas")],
                None,
            ),
            id="aborted: those that serve stay, a successor that does not serve yet goes",
        ),
        pytest.param(
            [cluster("east", pool(taints=(draining(),)), pool("spare"))],
            [serving("east", 0)],
            NOW,
            ([("Moving", "east", 0), ("New", "east", 1), ("New", "east", 2)], [], None),
            id="a pool: to another of the same cluster",
        ),
    ],
)
def test_a_drain_goes_one_step_at_a_time(clusters, held, now, expected):
    assert decided(place(2), clusters, held, now) == expected


def test_a_replica_that_its_cluster_cannot_run_moves_after_its_successor_serves_and_stays_without_one():
    class OnlyWest:
        def refuse(self, rendering, _artifacts, /):
            return None if rendering == b"west" else "no picker"

    asked = place(1, check=OnlyWest())
    east, west = cluster("east", rendering=b"east"), cluster("west", rendering=b"west")
    held = [serving("east")]
    assert decided(asked, [east, west], held)[0] == [("Moving", "east", 0), ("New", "west", 0)]
    assert decided(asked, [east], held)[0] == [("Moving", "east", 0)]
    assert decided(asked, [east, west], [*held, serving("west")])[0] == [("Kept", "west", 0)]


def next_fleet(clusters, fleet, asked, chosen):
    """The fleet after one deployment decided: new replicas start, dropped ones are gone."""
    found = schedule(asked, fleet, NOW)
    dropped = {one.replica.id: one.reason for one in found.dropped}
    new = [
        msgspec.structs.replace(one.replica, created=STARTED)
        for one in found.placements
        if one.decision is ReplicaDecision.NEW
    ]
    assert DropReason.DRAINED not in dropped.values()
    kept = [held for held in fleet.replicas if held.id not in dropped]
    started = [msgspec.structs.replace(held, serving=held.serving or chosen.random() < 0.3) for held in kept]
    return Fleet.of(clusters, [*started, *new])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 3),
    # By a seed: a hypothesis that draws each number itself can find engines that never start.
    st.integers(0, 2**32).map(random.Random),
)
@settings(max_examples=40)
@pytest.mark.slow
def test_a_drain_ends_and_takes_no_replica_out_of_service(wanted, parallelism, chosen):
    asks = [place(count, name=f"d{at}") for at, count in enumerate(wanted)]
    clusters = [cluster("a", pool(nodes=8), taints=(draining(parallelism),)), cluster("b", pool(nodes=8))]
    held = [serving("a", index, name=f"d{at}") for at, count in enumerate(wanted) for index in range(count)]
    fleet = Fleet.of(clusters, held)
    for _ in range(200):
        for asked in chosen.sample(asks, len(asks)):
            fleet = next_fleet(clusters, fleet, asked, chosen)
            mine = fleet.owned_by(asked.deployment)
            assert sum(each.serving for each in mine) >= asked.replicas
        moving = [each for each in fleet.replicas if each.cluster == "b" and not each.serving]
        assert len(moving) <= parallelism
        if all(each.cluster == "b" for each in fleet.replicas):
            return
    pytest.fail("replicas are left on the drained cluster")


@pytest.mark.parametrize(
    ("created", "since", "expected"),
    [
        ("", None, True),
        ("", 0.0, True),
        ("1970-01-01T00:00:10Z", None, True),
        ("1970-01-01T00:00:10Z", 9.0, True),
        ("1970-01-01T00:00:10Z", 10.0, True),
        ("1970-01-01T00:00:10Z", 11.0, False),
    ],
)
def test_a_replica_is_younger_than_a_drain_unless_it_was_surely_made_before(created, since, expected):
    assert _is_younger(replica("c", created=created), since) is expected
