"""The queue of candidates by itself: what comes first, what a reservation changes, and what is reported."""

import msgspec
import pytest

from modelplane.framework import RefusalCode, StepRecorder
from modelplane.placement.candidate_queue import CandidateQueue
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.plugins import active_plugins
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.request import ScoreWeights, SpreadRule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import TraceReporter
from modelplane.placement.values import Cluster, Price
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
)

BY_PRICE = ScoreWeights(spread=0, headroom=0, price=1)
A100 = hardware(kind("gpu", 8, product="A100"))
TWO_ENGINES = (engine(request(8), name="decode"), engine(request(8), name="prefill"))


BARE = [Cluster(name=name, ready=name == "b", hardware_known=name == "d") for name in ("b", "c", "d")]


def in_zone(name, zone, nodes=2, **fields):
    return cluster(name, pool("h200", nodes), labels={"zone": zone}, **fields)


def in_euros(name, nodes, price):
    return msgspec.structs.replace(pool(name, nodes), price=Price(price, "EUR"))


def queue_of(asked, *clusters, held=(), reporter=None):
    state = SchedulingCycle(asked, Fleet.of(clusters, held), 0.0)
    own = state.fleet.owned_by(asked.deployment)
    state.stay(own, own)
    return state, CandidateQueue(state, DEFAULT_PROFILE, reporter)


def popped(state, queue, count):
    """Reserves the best place, so many times: cluster/pool of each, None where nothing was left."""
    found = []
    for _ in range(count):
        best = queue.pop_best()
        if best is None:
            found.append(None)
            continue
        option, (name, position), total = best
        info = state.info(name)
        positions = [position if each.position < 0 else each.position for each in option.assignments]
        pools = [info.pools[at].name for at in positions]
        devices = [each.fit.allocation.devices for each in option.assignments]
        parts = [
            assignment(each, claim(number), engine_name=asked.name)
            for each, number, asked in zip(pools, devices, state.request.engines, strict=True)
        ]
        state.reserve(replica(name, state.lowest_free_index(name), *parts))
        queue.on_reserved(name, total)
        found.append(f"{name}/{'+'.join(pools)}")
    return found


@pytest.mark.parametrize(
    ("asked", "clusters", "held", "expected"),
    [
        pytest.param(place(1), [], [], [None], id="no cluster"),
        pytest.param(place(1), [cluster("b"), cluster("a")], [], ["a/h200", "b/h200", "a/h200"], id="ties by name"),
        pytest.param(
            place(1), [cluster("a"), cluster("b")], [replica("a")], ["b/h200", "a/h200"], id="away from its own"
        ),
        pytest.param(
            place(1, weights=BY_PRICE),
            [cluster("a", pool("x", price=9.0)), cluster("b", pool("y", price=3.0), pool("z", price=6.0))],
            [],
            ["b/y", "b/y"],
            id="the cheapest pool stays the best",
        ),
        pytest.param(
            place(1, engine(request(8)), weights=BY_PRICE),
            [cluster("a", pool("x", 1, price=9.0)), cluster("b", pool("y", 1, price=3.0), pool("z", 1, price=6.0))],
            [],
            ["b/y", "b/z", "a/x", None],
            id="until it is full, then the next best",
        ),
        pytest.param(
            place(1, weights=ScoreWeights(spread=1, headroom=0, price=1)),
            [cluster("a", pool(price=4.0)), cluster("b", pool(price=8.0))],
            [],
            ["a/h200", "a/h200", "b/h200"],
            id="with its replica a is as good as b, and comes before it by name",
        ),
        pytest.param(
            place(1, engine(request(8)), weights=BY_PRICE),
            [cluster("a", pool("x", 2), pool("y", 1))],
            [],
            ["a/x", "a/x", "a/y", None],
            id="pools by name where no score applies",
        ),
        pytest.param(
            place(1, *TWO_ENGINES),
            [cluster("a", pool("x", 1), pool("y", 1)), cluster("b", pool("x", 1))],
            [],
            ["a/x+y", None],
            id="all engines on one cluster",
        ),
        pytest.param(
            place(1, *TWO_ENGINES, cluster_selector=labelled(zone="2")),
            [in_zone("a", "1"), in_zone("b", "2"), in_zone("c", "1")],
            [],
            ["b/h200+h200", None],
            id="all engines on one cluster that is selected among others like it",
        ),
        pytest.param(
            place(1, engine(request(8), name="decode"), engine(request(1, product_is("A100")), name="prefill")),
            [cluster("a", pool("x", 1), pool("y", 0), pool("z", 1, A100))],
            [],
            ["a/x+z", None],
            id="engines on the first and the last pool",
        ),
        pytest.param(
            place(1, spread=(SpreadRule("zone"),)),
            [
                cluster("a", labels={"zone": "1"}),
                cluster("b", labels={"zone": "1"}),
                cluster("c", labels={"zone": "2"}),
            ],
            [],
            ["a/h200", "c/h200", "b/h200", "c/h200"],
            id="a spread rule holds options back until another value has as many",
        ),
        pytest.param(
            place(1, *TWO_ENGINES, spread=(SpreadRule("zone"),)),
            [in_zone("a", "1", nodes=4), in_zone("b", "2")],
            [replica("b", at, assignment("h200", claim(8)), name="other") for at in range(2)],
            ["a/h200+h200", None],
            id="a spread rule counts a value whose clusters are full",
        ),
        pytest.param(
            place(1, engine(request(8), name="small"), engine(request(9), name="large"), spread=(SpreadRule("zone"),)),
            [cluster("a", pool("p", 4, hardware(kind(count=9))), labels={"zone": "1"}), in_zone("b", "2")],
            [replica("b", at, assignment("h200", claim(8)), name="other") for at in range(2)],
            ["a/p+p", "a/p+p", None],
            id="and not one whose clusters are full and too small",
        ),
        pytest.param(
            place(1, *TWO_ENGINES),
            [cluster("a", pool("x", 2, price=1.0), in_euros("y", 2, 1.0))],
            [],
            ["a/x+x", "a/y+y", None],
            id="of ways that are as good the first",
        ),
        pytest.param(
            place(1), [cluster("a", cordoned=True), cluster("b", taints=(taint("t"),))], [], [None], id="all refused"
        ),
    ],
)
def test_the_best_place_comes_first_after_each_reservation(asked, clusters, held, expected):
    state, queue = queue_of(asked, *clusters, held=held)
    assert popped(state, queue, len(expected)) == expected


def heard(recorder):
    """Places and reasons of refusals, each place once."""
    return sorted(
        (name, refusal.filter, refusal.code is RefusalCode.UNSCHEDULABLE)
        for subject, refusal in recorder.refusals
        for name, _ in subject.places
    )


def test_every_place_is_reported_with_its_refusal_or_its_score():
    recorder = StepRecorder()
    clusters = [
        cluster("a", cordoned=True),
        cluster("b", pool("p", 1)),
        cluster("c", pool("p", 1)),
        cluster("d", pool("small", 0)),
    ]
    full = replica("c", 0, assignment("p", claim(8)), name="other")
    state, queue = queue_of(place(1, engine(request(8))), *clusters, held=[full], reporter=recorder)
    assert heard(recorder) == [("a", "Cordoned", True), ("c", "Capacity", True), ("d", "Capacity", False)]
    assert [(option.places, round(total, 3)) for option, total, _ in recorder.scores] == [((("b", 0),), 0.5)]
    assert recorder.picks == []
    assert popped(state, queue, 2) == ["b/p", None]
    assert [subject.places for subject in recorder.picks] == [(("b", 0),)]
    assert heard(recorder)[1:3] == [("b", "Capacity", True), ("c", "Capacity", True)]


@pytest.mark.parametrize(("engines", "several"), [((), False), (TWO_ENGINES, True)], ids=["one", "two"])
def test_what_is_refused_or_picked_for_all_engines_is_a_whole_cluster(engines, several):
    recorder = StepRecorder()
    clusters = [cluster("a", cordoned=True), cluster("b", pool(nodes=4))]
    state, queue = queue_of(place(1, *engines), *clusters, reporter=recorder)
    popped(state, queue, 1)
    assert [(found.places, found.whole) for found, _ in recorder.refusals] == [((("a", 0),), True)]
    assert [(found.places, found.whole) for found in recorder.picks] == [((("b", 0),), several)]


@pytest.mark.parametrize(("engines", "several"), [((), False), (TWO_ENGINES, True)], ids=["one", "two"])
def test_what_is_refused_or_picked_for_all_engines_is_a_whole_cluster_that_has_replicas_too(engines, several):
    recorder = StepRecorder()
    clusters, held = [cluster("a", cordoned=True), cluster("b", pool(nodes=9))], [replica("a"), replica("b")]
    state, queue = queue_of(place(1, *engines), *clusters, held=held, reporter=recorder)
    popped(state, queue, 1)
    assert [(found.places, found.version) for found, _ in recorder.refusals] == [((("a", 0),), 0), ((("a", 0),), 1)]
    assert [(found.places, found.whole) for found in recorder.picks] == [((("b", 0),), several)]


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        pytest.param((), [("a", ""), ("b", ""), ("a", "a"), ("a", "a"), ("b", "b")], id="when it could be the best"),
        pytest.param(
            TWO_ENGINES, [("a", "a"), ("b", "b"), ("a", "a"), ("a", "a"), ("b", "b")], id="at once for several engines"
        ),
    ],
)
def test_when_a_cluster_that_got_a_replica_is_scored_again(engines, expected):
    """The totals of a are 1, 0.75, 0.67 and 0.63 with each of its replicas, and those of b are 0.9 and 0.65."""
    recorder = StepRecorder()
    clusters = [cluster("a", pool(nodes=20, price=4.0)), cluster("b", pool(nodes=20, price=5.0))]
    asked = place(1, *engines, weights=ScoreWeights(spread=1, headroom=0, price=1))
    state, queue = queue_of(asked, *clusters, reporter=recorder)
    found = []
    for _ in expected:
        before = len(recorder.scores)
        (best,) = popped(state, queue, 1)
        found.append((best.partition("/")[0], "".join(option.cluster for option, *_ in recorder.scores[before:])))
    assert found == expected


def test_options_are_listed_with_a_place_that_is_as_it_was():
    """The second pools are alike. That of a counts apart, since a has a replica."""
    clusters = [cluster(name, pool("x", price=1.0), pool("y", price=2.0)) for name in "ab"]
    _, queue = queue_of(place(2, weights=BY_PRICE), *clusters, held=[replica("a", 0, assignment("x", claim(1)))])
    found = [(option.places, place) for option, place in queue.options()]
    assert found == [
        ((("a", 0),), ("a", 0)),
        ((("b", 0),), ("b", 0)),
        ((("a", 1), ("b", 1)), ("b", 1)),
        ((("a", 1),), ("a", 1)),
    ]


def test_clusters_without_pools_are_reported_on_demand():
    recorder = StepRecorder()
    _, queue = queue_of(place(1), cluster("a"), *BARE, reporter=recorder)
    assert heard(recorder) == []
    queue.report_missing_pools()
    assert [(found.places, found.whole, refusal.reason) for found, refusal in recorder.refusals] == [
        ((("b", 0),), True, "the cluster has no pools yet"),
        ((("c", 0),), True, "the cluster is not ready"),
        ((("d", 0),), True, "the cluster has no pools"),
    ]
    assert heard(recorder) == [("b", "Pools", True), ("c", "ClusterReady", True), ("d", "Pools", False)]


def test_a_cluster_with_pools_that_are_not_read_is_reported_as_a_whole():
    recorder = StepRecorder()
    _, queue = queue_of(place(1), cluster("a", hardware_known=False), reporter=recorder)
    queue.report_missing_pools()
    assert [(found.places, found.whole, refusal.reason) for found, refusal in recorder.refusals] == [
        ((("a", 0),), True, "not all pools of the cluster are read yet")
    ]


def test_a_taint_that_is_not_tolerated_is_told_of_a_pool_that_is_also_too_small():
    recorder = StepRecorder()
    queue_of(place(1, engine(request(9))), cluster("a", pool(taints=(taint("team"),))), reporter=recorder)
    assert heard(recorder) == [("a", "PoolTaints", False)]


def test_clusters_without_pools_are_reported_once_for_several_engines():
    recorder = StepRecorder()
    _, queue = queue_of(place(1, *TWO_ENGINES), cluster("a"), *BARE, reporter=recorder)
    queue.report_missing_pools()
    assert heard(recorder) == [("b", "Pools", True), ("c", "ClusterReady", True), ("d", "Pools", False)]


def test_what_a_spread_rule_refuses_at_the_end_is_reported_when_the_queue_is_closed():
    recorder = StepRecorder()
    zones = [in_zone("a", "1"), in_zone("b", "2", cordoned=True), in_zone("c", "3")]
    full = [replica("c", at, assignment("h200", claim(8)), name="other") for at in range(2)]
    state, queue = queue_of(place(2, spread=(SpreadRule("zone"),)), *zones, held=full, reporter=recorder)
    assert popped(state, queue, 2) == ["a/h200", None]
    before = heard(recorder)
    queue.close()
    assert {found for found in heard(recorder) if found not in before} == {("a", "Spread", True)}
    assert [plugin.name for plugin in queue.filters] == ["Spread"]


def test_every_option_that_a_spread_rule_refuses_at_the_end_is_reported():
    """Those of the pools as they were first, and those of the cluster with its replica."""
    recorder = StepRecorder()
    two_pools = cluster("a", pool("p", 1), pool("q", 2), labels={"zone": "1"})
    full = [replica("c", at, assignment("h200", claim(8)), name="other") for at in range(2)]
    asked = place(2, spread=(SpreadRule("zone"),))
    state, queue = queue_of(asked, two_pools, in_zone("c", "3"), held=full, reporter=recorder)
    assert popped(state, queue, 2) == ["a/q", None]
    before = len(recorder.refusals)
    queue.close()
    found = [(*option.places, option.version, why.filter) for option, why in recorder.refusals[before:]]
    assert sorted(found) == [(("a", at), version, "Spread") for at in (0, 1) for version in (0, 1)]


def test_what_a_spread_rule_refuses_is_reported_for_each_cluster_that_got_replicas():
    """Cluster a got two, cluster b one. The options before that are refused as well."""
    recorder = StepRecorder()
    full = [replica("c", at, assignment("h200", claim(8)), name="other") for at in range(2)]
    zones = [in_zone("a", "1"), in_zone("b", "1"), in_zone("c", "2")]
    asked = place(4, spread=(SpreadRule("zone", max_skew=3),))
    state, queue = queue_of(asked, *zones, held=full, reporter=recorder)
    assert popped(state, queue, 4) == ["a/h200", "b/h200", "a/h200", None]
    before = len(recorder.refusals)
    queue.close()
    assert sorted((option.version, option.places) for option, _ in recorder.refusals[before:]) == [
        (0, (("a", 0), ("b", 0))),
        (1, (("b", 0),)),
        (2, (("a", 0),)),
    ]


def test_a_cluster_that_got_full_is_not_reported_as_refused_by_a_spread_rule():
    """Its option was scored before it was full. The spread rule refuses that option, which is no longer there."""
    listener = TraceReporter()
    zones = [in_zone("a", "1", nodes=2), in_zone("b", "2"), in_zone("c", "3")]
    full = [replica("c", at, assignment("h200", claim(8)), name="other") for at in range(2)]
    full += [replica("a", 7, assignment("h200", claim(8)))]
    asked = place(3, engine(request(8)), spread=(SpreadRule("zone", max_skew=2),))
    state, queue = queue_of(asked, *zones, held=full, reporter=listener)
    assert popped(state, queue, 4) == ["b/h200", "a/h200", "b/h200", None]
    queue.close()
    last = {
        name: finding.refusal.filter for finding in listener.findings() if finding.apart for name, _ in finding.places
    }
    assert last == {"a": "Capacity", "b": "Capacity"}


def test_clusters_that_are_alike_are_told_apart_by_what_is_read_of_them():
    recorder = StepRecorder()
    zones = [in_zone("a", "1"), in_zone("b", "2"), in_zone("c", "2")]
    queue_of(place(1, *TWO_ENGINES, cluster_selector=labelled(zone="2")), *zones, reporter=recorder)
    assert [option.places for option, *_ in recorder.scores] == [(("b", 0), ("c", 0))]
    assert [found.places for found, _ in recorder.refusals] == [(("a", 0),)]


def test_decisions_are_made_once_for_clusters_that_are_alike():
    recorder = StepRecorder()
    queue_of(place(1), *(cluster(f"c{at:03}") for at in range(200)), reporter=recorder)
    assert [len(option.places) for option, *_ in recorder.scores] == [200]


@pytest.mark.parametrize(
    ("asked", "steady"),
    [(place(1), True), (place(1, spread=(SpreadRule("zone", hard=False),)), False)],
    ids=["scores of other clusters stay", "a preferred spread changes them"],
)
def test_which_decisions_are_made_again_after_a_reservation(asked, steady):
    state, _ = queue_of(asked, in_zone("a", "1"))
    assert active_plugins(DEFAULT_PROFILE, state, [state.info("a").profile]).steady is steady
