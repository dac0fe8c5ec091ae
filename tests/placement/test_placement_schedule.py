"""Tables on whole schedules: what is placed, what is dropped, what waits."""

import msgspec
import pytest

from modelplane.framework import Refusal, RefusalCode, StepRecorder
from modelplane.framework.registry import NoParameters, plugin_type
from modelplane.placement.decisions import Dropped, DropReason, ReplicaDecision
from modelplane.placement.plugins import FilterStage
from modelplane.placement.profile import PluginUse, build_profile, builtin_types, default_spec
from modelplane.placement.request import CacheRequest, FailoverPolicy, Preference, ScoreWeights, SpreadRule
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateVerdict
from modelplane.placement.values import CacheInfo, Price, QueueInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    labelled,
    memory_at_least,
    packed,
    place,
    pool,
    product_is,
    replica,
    request,
    taint,
    tolerate,
)

H100 = hardware(kind(memory="80Gi", product="H100"))
H200 = hardware(kind())
EAST, WEST = cluster("east", labels={"region": "east"}), cluster("west", labels={"region": "west"})
WHOLE = engine(request(8))
GANG = engine(request(8), nodes=2)
SERVING = {"serving": True, "created": "2026-01-01T00:00:00Z"}
GONE = {**SERVING, "cluster_missing": True}


@pytest.mark.parametrize(
    ("asked", "clusters", "replicas", "expected"),
    [
        pytest.param(place(0), [EAST], [], ([], [], 0), id="nothing asked for"),
        pytest.param(place(1), [], [], ([], [], 1), id="no fleet"),
        pytest.param(
            place(2),
            [WEST, EAST],
            [],
            (["east/h200#0 New", "west/h200#0 New"], [], 0),
            id="spread over clusters by name",
        ),
        pytest.param(
            place(3),
            [EAST, WEST],
            [],
            (["east/h200#0 New", "east/h200#1 New", "west/h200#0 New"], [], 0),
            id="two replicas share a cluster under two indexes",
        ),
        pytest.param(
            place(5, WHOLE),
            [EAST, WEST],
            [],
            (["east/h200#0 New", "east/h200#1 New", "west/h200#0 New", "west/h200#1 New"], [], 1),
            id="one finds no node",
        ),
        pytest.param(
            place(2, GANG),
            [EAST, WEST],
            [],
            (["east/h200#0 New", "west/h200#0 New"], [], 0),
            id="two nodes a replica",
        ),
        pytest.param(
            place(1, engine(request(8), copies=2)),
            [EAST],
            [],
            (["east/h200#0 New"], [], 0),
            id="two workers of one replica on two nodes",
        ),
        pytest.param(place(1, engine(request(8), copies=3)), [EAST], [], ([], [], 1), id="three workers on two nodes"),
        pytest.param(
            place(1, engine(request(8), nodes=2, helpers=5)),
            [EAST],
            [],
            (["east/h200#0 New"], [], 0),
            id="members that claim nothing take no device",
        ),
        pytest.param(
            place(1, engine(request(8, memory_at_least("141Gi")))),
            [cluster("a", pool("h100", 4, H100)), cluster("b", pool("h100", 4, H100), pool("h200", 1, H200))],
            [],
            (["b/h200#0 New"], [], 0),
            id="the pool whose devices match",
        ),
        pytest.param(
            place(
                1,
                engine(request(8, product_is("H200")), name="decode"),
                engine(request(8, product_is("H100")), name="prefill", nodes=2),
            ),
            [EAST, cluster("mixed", pool("h100", 2, H100), pool("h200", 1, H200))],
            [],
            (["mixed/h200+h100#0 New"], [], 0),
            id="engines on one cluster, each on its own pool",
        ),
        pytest.param(
            place(1, engine(request(4), name="decode"), engine(request(4), name="prefill")),
            [cluster("one", pool("h200", 1))],
            [],
            (["one/h200#0 New"], [], 0),
            id="engines share a pool where both fit",
        ),
        pytest.param(
            place(1, engine(request(8), name="decode"), engine(request(4), name="prefill")),
            [cluster("one", pool("h200", 1))],
            [],
            ([], [], 1),
            id="each engine fits, both do not",
        ),
        pytest.param(
            place(1, engine(request(1), name="b"), engine(request(8), name="a")),
            [cluster("one", pool("big", 1), pool("small", 1, hardware(kind(count=1))))],
            [],
            (["one/small+big#0 New"], [], 0),
            id="a small engine leaves the only large pool to the large one",
        ),
        pytest.param(
            place(1),
            [msgspec.structs.replace(EAST, ready=False), WEST],
            [],
            (["west/h200#0 New"], [], 0),
            id="not ready",
        ),
        pytest.param(
            place(1),
            [msgspec.structs.replace(EAST, cordoned=True)],
            [],
            ([], [], 1),
            id="cordoned takes nothing new",
        ),
        pytest.param(
            place(1),
            [msgspec.structs.replace(EAST, cordoned=True)],
            [replica("east", **SERVING)],
            (["east/h200#0 Kept"], [], 0),
            id="cordoned keeps what runs",
        ),
        pytest.param(
            place(1, cluster_selector=labelled(region="west")),
            [EAST, WEST],
            [],
            (["west/h200#0 New"], [], 0),
            id="selector",
        ),
        pytest.param(
            place(1, required=(labelled(region="nowhere"), labelled(region="west"))),
            [EAST, WEST],
            [],
            (["west/h200#0 New"], [], 0),
            id="one of the required selectors",
        ),
        pytest.param(
            place(1, preferred=(Preference(10, labelled(region="west")),)),
            [EAST, WEST],
            [],
            (["west/h200#0 New"], [], 0),
            id="preferred",
        ),
        pytest.param(
            place(3, preferred=(Preference(10, labelled(region="west")),), weights=ScoreWeights(spread=0, headroom=0)),
            [EAST, WEST],
            [],
            (["west/h200#0 New", "west/h200#1 New", "west/h200#2 New"], [], 0),
            id="only the preference counts",
        ),
        pytest.param(
            place(1),
            [cluster("a", taints=(taint("team"),)), cluster("b", pool(taints=(taint("team"),))), cluster("c")],
            [],
            (["c/h200#0 New"], [], 0),
            id="taints of cluster and pool",
        ),
        pytest.param(
            place(2, tolerations=(tolerate("team"),)),
            [cluster("a", taints=(taint("team"),)), cluster("b", pool(taints=(taint("team"),)))],
            [],
            (["a/h200#0 New", "b/h200#0 New"], [], 0),
            id="tolerated",
        ),
        pytest.param(
            place(1, WHOLE),
            [cluster("a", pool(nodes=1))],
            [replica("a", 0, name="other")],
            ([], [], 1),
            id="another's small pod may sit anywhere",
        ),
        pytest.param(
            place(1, WHOLE),
            [packed("a", pool(nodes=2))],
            [replica("a", 0, name="other"), replica("a", 1, name="other")],
            (["a/h200#0 New"], [], 0),
            id="a cluster that packs is believed to",
        ),
        pytest.param(
            place(1, WHOLE),
            [cluster("a", pool(nodes=2))],
            [replica("a", 0, name="other"), replica("a", 1, name="other")],
            ([], [], 1),
            id="any other is not",
        ),
        pytest.param(
            place(1),
            [cluster("a", pool("dear", price=90.0), pool("cheap", price=30.0))],
            [],
            (["a/cheap#0 New"], [], 0),
            id="the cheaper pool",
        ),
        pytest.param(
            place(1, WHOLE),
            [cluster("a", pool(nodes=9), quotas=(("team", 4),)), cluster("b", quotas=(("*", 8),))],
            [],
            (["b/h200#0 New"], [], 0),
            id="quota of the namespace, and of those not listed",
        ),
        pytest.param(
            place(2, engine(request(4))),
            [cluster("a", quotas=(("team", 8),))],
            [replica("a", 0, assignment("h200", claim(4)), name="sibling", **SERVING)],
            (["a/h200#0 New"], [], 1),
            id="the quota counts every deployment of the namespace",
        ),
        pytest.param(
            place(2, engine(request(4))),
            [cluster("a", queue=QueueInfo("q", quota=8, others=4))],
            [],
            (["a/h200#0 New"], [], 1),
            id="what the cluster's queue has left",
        ),
        pytest.param(
            place(1, priority="gold"),
            [cluster("a", priorities=(("silver", 1),)), cluster("b", priorities=(("gold", 9),)), cluster("c")],
            [],
            (["b/h200#0 New"], [], 0),
            id="priorities that the cluster has",
        ),
        pytest.param(
            place(1),
            [EAST],
            [replica("east", 0, leaving=True)],
            (["east/h200#1 New"], [], 0),
            id="the index of one that is being deleted is not used again",
        ),
        pytest.param(
            place(1),
            [EAST],
            [replica("gone", 0, **GONE)],
            (["east/h200#0 New", "gone/h200#0 Moving"], [], 0),
            id="its cluster is gone: it stays until a successor serves",
        ),
        pytest.param(
            place(1),
            [EAST],
            [replica("east", 0, **SERVING), replica("gone", 0, **GONE)],
            (["east/h200#0 Kept"], ["gone#0 Replaced"], 0),
            id="its cluster is gone and a successor serves",
        ),
        pytest.param(
            place(1),
            [EAST],
            [replica("gone", 0, **SERVING)],
            (["gone/h200#0 Kept"], [], 0),
            id="its cluster is not listed, and the replica does not say that it is gone",
        ),
        pytest.param(
            place(2),
            [],
            [replica("gone", 0, **GONE), replica("gone", 1, **GONE)],
            (["gone/h200#0 Moving", "gone/h200#1 Moving"], [], 0),
            id="the only cluster is gone: what serves stays",
        ),
        pytest.param(
            place(2),
            [],
            [replica("gone", 0, **SERVING), replica("gone", 1, **SERVING)],
            (["gone/h200#0 Kept", "gone/h200#1 Kept"], [], 0),
            id="no cluster is known: what serves stays",
        ),
        pytest.param(
            place(1),
            [],
            [replica("gone", 0, **SERVING), replica("gone", 1, **SERVING)],
            (["gone/h200#0 Kept"], ["gone#1 ScaledDown"], 0),
            id="no cluster is known and fewer are asked for",
        ),
        pytest.param(
            place(3, engine(request(4))),
            [cluster("a", pool(nodes=1))],
            [replica("a", at, assignment("h200", claim(2)), **SERVING) for at in range(3)],
            (["a/h200#0 Kept", "a/h200#1 Moving", "a/h200#2 Moving"], [], 0),
            id="of replicas that grow, those that no longer fit their pool beside the others move",
        ),
        pytest.param(
            place(3, engine(request(4))),
            [cluster("a", pool(nodes=4), quotas=(("team", 10),))],
            [replica("a", at, assignment("h200", claim(2)), **SERVING) for at in range(3)],
            (["a/h200#0 Kept", "a/h200#1 Kept", "a/h200#2 Moving"], [], 0),
            id="of replicas that grow, those that exceed the quota move",
        ),
        pytest.param(
            place(3, engine(request(4))),
            [cluster("a", pool(nodes=4), queue=QueueInfo("q", quota=10, others=2))],
            [replica("a", at, assignment("h200", claim(2)), **SERVING) for at in range(3)],
            (["a/h200#0 Kept", "a/h200#1 Moving", "a/h200#2 Moving"], [], 0),
            id="of replicas that grow, those that exceed the queue beside strangers move",
        ),
        pytest.param(
            place(2, engine(request(4))),
            [cluster("a", queue=QueueInfo("q", quota=8, others=4))],
            [replica("a", 0, assignment("h200", claim(4)), created="2026-01-01T00:00:00Z")],
            (["a/h200#0 Kept"], [], 1),
            id="a replica that did not start yet hides nothing that others use of the queue",
        ),
        pytest.param(
            place(1),
            [EAST, WEST],
            [replica("east", 0, **SERVING), replica("west", 0, **SERVING), replica("west", 1, **SERVING)],
            (["east/h200#0 Kept"], ["west#0 ScaledDown", "west#1 ScaledDown"], 0),
            id="scale down: the most loaded first, then the later name",
        ),
        pytest.param(
            place(2),
            [EAST, WEST],
            [replica("east", 0, **SERVING), replica("west", 0, **SERVING), replica("west", 1, **SERVING)],
            (["east/h200#0 Kept", "west/h200#0 Kept"], ["west#1 ScaledDown"], 0),
            id="scale down keeps the sole replica of a cluster",
        ),
        pytest.param(
            place(2),
            [EAST, WEST],
            [replica(name, at, **SERVING) for name in ("east", "west") for at in range(2)],
            (["east/h200#0 Kept", "west/h200#0 Kept"], ["east#1 ScaledDown", "west#1 ScaledDown"], 0),
            id="scale down takes turns among clusters that have as many",
        ),
        pytest.param(
            place(2),
            [EAST, WEST],
            [replica("east", 0), replica("west", 0), replica("west", 1, **SERVING), replica("west", 2, **SERVING)],
            (["west/h200#1 Kept", "west/h200#2 Kept"], ["east#0 ScaledDown", "west#0 ScaledDown"], 0),
            id="scale down: those that do not serve go before those that do",
        ),
        pytest.param(
            place(1, engine(request(1, product_is("H100")))),
            [EAST, cluster("old", pool("h100", 1, H100))],
            [replica("east", 0, **SERVING)],
            (["east/h200#0 Moving", "old/h100#0 New"], [], 0),
            id="edited selectors: the successor first",
        ),
        pytest.param(
            place(1, engine(request(1, product_is("H100")))),
            [EAST],
            [replica("east", 0, **SERVING)],
            (["east/h200#0 Moving"], [], 0),
            id="edited selectors without a place for a successor: it stays",
        ),
        pytest.param(
            place(1, cluster_selector=labelled(region="west")),
            [EAST, WEST],
            [replica("east", 0, **SERVING), replica("west", 0)],
            (["east/h200#0 Moving", "west/h200#0 Kept"], [], 0),
            id="the old one stays until the successor serves",
        ),
        pytest.param(
            place(1, cluster_selector=labelled(region="west")),
            [EAST, WEST],
            [replica("east", 0, **SERVING), replica("west", 0, **SERVING)],
            (["west/h200#0 Kept"], ["east#0 Replaced"], 0),
            id="and leaves when it does",
        ),
        pytest.param(
            place(1, cluster_selector=labelled(region="west")),
            [EAST, WEST],
            [replica("east", 0)],
            (["west/h200#0 New"], ["east#0 Replaced"], 0),
            id="one that does not serve leaves at once",
        ),
    ],
)
def test_schedules(decide, asked, clusters, replicas, expected):
    assert decide(asked, clusters, replicas) == expected


@pytest.mark.parametrize(
    ("now", "failover", "expected"),
    [
        pytest.param(1000.0, FailoverPolicy(), (["east/h200#0 Kept"], [], 0), id="it stopped being ready just now"),
        pytest.param(1299.0, FailoverPolicy(), (["east/h200#0 Kept"], [], 0), id="within its grace"),
        pytest.param(
            1300.0, FailoverPolicy(), (["east/h200#0 Moving", "west/h200#0 New"], [], 0), id="the grace is over"
        ),
        pytest.param(9999.0, FailoverPolicy(replace=False), (["east/h200#0 Kept"], [], 0), id="never replaced"),
        pytest.param(
            1000.0, FailoverPolicy(grace_s=0), (["east/h200#0 Moving", "west/h200#0 New"], [], 0), id="no grace"
        ),
    ],
)
def test_a_failing_cluster_is_given_its_grace(decide, now, failover, expected):
    failing = msgspec.structs.replace(EAST, ready=False, unready_since=1000.0)
    assert decide(place(1, failover=failover), [failing, WEST], [replica("east", 0, **SERVING)], now=now) == expected


def test_a_failing_cluster_keeps_its_replica_when_no_other_place_is_found(decide):
    failing = msgspec.structs.replace(EAST, ready=False, unready_since=0.0)
    assert decide(place(1), [failing], [replica("east", 0)], now=1e6) == (["east/h200#0 Moving"], [], 0)


def test_the_next_moment_that_matters_is_told():
    failing = msgspec.structs.replace(EAST, ready=False, unready_since=1000.0)
    fleet = Fleet.of([failing], [replica("east", 0, **SERVING)])
    assert schedule(place(1), fleet, 1100.0).requeue_after_s == 200.0
    assert schedule(place(1), fleet).requeue_after_s == survey(place(1), fleet).requeue_after_s == 1300.0
    assert schedule(place(1), Fleet.of([EAST], [replica("east", 0, **SERVING)]), 5.0).requeue_after_s is None


@pytest.mark.parametrize(
    ("now", "tolerations", "expected"),
    [
        pytest.param(0.0, (), (["east/h200#0 Moving", "west/h200#0 New"], [], 0), id="not tolerated"),
        pytest.param(0.0, (tolerate("fire"),), (["east/h200#0 Kept"], [], 0), id="tolerated for good"),
        pytest.param(
            159.0,
            (tolerate("fire", "NoExecute", seconds=60),),
            (["east/h200#0 Kept"], [], 0),
            id="tolerated for a time",
        ),
        pytest.param(
            160.0,
            (tolerate("fire", "NoExecute", seconds=60),),
            (["east/h200#0 Moving", "west/h200#0 New"], [], 0),
            id="the time is over",
        ),
        pytest.param(
            3760.0,
            (tolerate("fire", "NoExecute", seconds=60),),
            (["west/h200#0 New"], ["east#0 Drained"], 0),
            id="and so is the hour of the drain",
        ),
    ],
)
def test_a_no_execute_taint_drains(decide, now, tolerations, expected):
    burning = msgspec.structs.replace(EAST, taints=(taint("fire", "NoExecute", since=100.0),))
    asked = place(1, tolerations=tolerations)
    assert decide(asked, [burning, WEST], [replica("east", 0, **SERVING)], now=now) == expected


def test_a_no_execute_taint_of_unknown_age_does_not_drain_those_who_tolerate_it_for_a_time(decide):
    burning = msgspec.structs.replace(EAST, taints=(taint("fire", "NoExecute"),))
    asked = place(1, tolerations=(tolerate("fire", "NoExecute", seconds=60),))
    assert decide(asked, [burning], [replica("east", 0, **SERVING)], now=1e9) == (["east/h200#0 Kept"], [], 0)


def test_a_pool_of_a_drained_taint_drains_too(decide):
    burning = cluster("east", pool(taints=(taint("fire", "NoExecute"),)))
    assert decide(place(1), [burning, WEST], [replica("east", 0, **SERVING)]) == (
        ["east/h200#0 Moving", "west/h200#0 New"],
        [],
        0,
    )


def test_spread_rules_wait_and_preferences_do_not(decide):
    clusters = [
        EAST,
        cluster("east2", labels={"region": "east"}),
        cluster("west", pool(nodes=1), labels={"region": "west"}),
    ]
    hard = place(6, WHOLE, spread=(SpreadRule("region", 1),))
    assert decide(hard, clusters) == (["east/h200#0 New", "east2/h200#0 New", "west/h200#0 New"], [], 3)
    soft = place(4, WHOLE, spread=(SpreadRule("region", 1, hard=False),))
    assert decide(soft, clusters) == (
        ["east/h200#0 New", "east/h200#1 New", "east2/h200#0 New", "west/h200#0 New"],
        [],
        0,
    )


def test_a_value_where_nothing_could_run_does_not_hold_the_others_back(decide):
    clusters = [EAST, cluster("west", pool("h100", 1, H100), labels={"region": "west"})]
    asked = place(2, engine(request(1, product_is("H200"))), spread=(SpreadRule("region", 1),))
    assert decide(asked, clusters) == (["east/h200#0 New", "east/h200#1 New"], [], 0)


def test_caches_keep_replicas_where_they_are_staged_or_will_be(decide):
    cache = CacheInfo(namespace="team", name="weights", staged=frozenset(), selector=labelled(region="west"))
    assert decide(place(1, caches=(CacheRequest("weights"),)), [EAST, WEST], (), [cache]) == (
        ["west/h200#0 New"],
        [],
        0,
    )
    assert decide(place(1, caches=(CacheRequest("weights"),)), [EAST, WEST]) == ([], [], 1)
    staged = msgspec.structs.replace(cache, staged=frozenset({"west"}), selector=None)
    preferred = place(1, caches=(CacheRequest("weights", required=False),))
    assert decide(preferred, [EAST, WEST], (), [staged]) == (["west/h200#0 New"], [], 0)
    elsewhere = msgspec.structs.replace(staged, namespace="others")
    assert decide(preferred, [EAST, WEST], (), [elsewhere]) == (["east/h200#0 New"], [], 0)


def test_a_full_fleet_is_rolled_one_replica_at_a_time(decide):
    """Nowhere is room for a successor, so one that serves makes way, and the next waits until the successor serves."""
    only = cluster("a", pool("h100", 2, H100), pool("h200", 2, H200))
    old = [replica("a", i, assignment("h200", claim(8)), **SERVING) for i in range(2)]
    busy = [replica("a", i, assignment("h100", claim(8)), name="other", **SERVING) for i in range(2)]
    moved = place(2, engine(request(8, memory_at_least("141Gi"))), cluster_selector=None)
    assert decide(moved, [only], [*old, *busy])[0] == ["a/h200#0 Kept", "a/h200#1 Kept"]
    larger = place(2, engine(request(8), copies=1, nodes=1, name="renamed"))
    placements, dropped, pending = decide(larger, [only], [*old, *busy])
    assert (placements, dropped, pending) == (["a/h200#0 Moving", "a/h200#2 New"], ["a#1 Replaced"], 0)
    going = msgspec.structs.replace(old[1], leaving=True)
    assert decide(larger, [only], [old[0], going, *busy]) == (["a/h200#0 Moving"], [], 1)


def test_what_is_asked_changes_in_place_where_it_still_fits(decide):
    before = [replica("east", 0, assignment("h200", claim(4)), **SERVING)]
    assert decide(place(1, engine(request(8))), [EAST], before) == (["east/h200#0 Kept"], [], 0)
    crowded = [*before, *(replica("east", i, name="other", **SERVING) for i in range(2))]
    placements, _, _ = decide(place(1, engine(request(8))), [EAST, WEST], crowded)
    assert placements == ["east/h200#0 Moving", "west/h200#0 New"]


PRIORITIES = (("gold", 100), ("silver", 10))
FULL = [replica("a", i, assignment("h200", claim(8)), name="low", priority="silver", **SERVING) for i in range(2)]
PRIZED = cluster("a", priorities=PRIORITIES)


def test_an_eviction_is_announced_before_it_happens():
    fleet = Fleet.of([PRIZED], FULL)
    asked = place(1, WHOLE, priority="gold", may_preempt=True)
    first = schedule(asked, fleet)
    assert (first.pending, first.placements, first.preemption.acted) == (1, (), False)
    assert [victim.index for victim in first.preemption.victims] == [1]
    nominated_victims = msgspec.structs.replace(asked, nominated_victims=frozenset(first.preemption.digests))
    second = schedule(nominated_victims, fleet)
    assert (second.pending, second.preemption.acted) == (0, True)
    (placed,) = second.placements
    assert placed.replica.preempts == first.preemption.digests
    fleet = fleet.with_replicas([placed.replica])
    evicted = schedule(place(2, WHOLE, name="low", priority="silver"), fleet)
    assert [(d.replica.index, d.reason.value) for d in evicted.dropped] == [(1, "Preempted")]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        pytest.param({"protected": True}, {}, id="protected"),
        pytest.param({"priority": "gold"}, {}, id="of the same priority"),
        pytest.param({}, {"priority": "silver"}, id="the asker is no higher"),
        pytest.param({}, {"may_preempt": False}, id="the asker may not"),
    ],
)
def test_who_is_never_evicted(changes, asked):
    fleet = Fleet.of([PRIZED], [msgspec.structs.replace(found, **changes) for found in FULL])
    decided = schedule(place(1, WHOLE, **{"priority": "gold", "may_preempt": True, **asked}), fleet)
    assert (decided.pending, decided.preemption) == (1, None)


def test_who_does_not_ask_for_evictions_evicts_nobody():
    decided = schedule(place(1, WHOLE, priority="gold"), Fleet.of([PRIZED], FULL))
    assert (decided.pending, decided.preemption) == (1, None)


def test_of_those_who_could_go_the_least_important_go_and_no_more_than_needed():
    small = [replica("a", i, name="low", priority="silver", **SERVING) for i in range(8)]
    big = replica("a", 9, assignment("other", claim(8)), name="big", **SERVING)
    prized = cluster("a", pool(nodes=1), pool("other", 1), priorities=PRIORITIES)
    fleet = Fleet.of([prized], [*small, big])
    decided = schedule(place(1, WHOLE, priority="gold", may_preempt=True), fleet)
    assert [victim.deployment.name for victim in decided.preemption.victims] == ["big"]


def test_the_trace_says_why_with_numbers():
    clusters = [
        cluster("a", pool("h100", 2, H100)),
        cluster("b", pool("h200", 2)),
        cluster("c", labels={"region": "no"}, taints=(taint("team"),)),
        cluster("d", ready=False),
    ]
    busy = [replica("b", i, assignment("h200", claim(8)), name="other", **SERVING) for i in range(1)]
    asked = place(1, engine(request(8, memory_at_least("141Gi")), nodes=2))
    decided = schedule(asked, Fleet.of(clusters, busy))
    found = {(c.cluster, c.pool): (c.filter, c.reason) for c in decided.trace.candidates()}
    assert found == {
        ("a", "h100"): ("Devices", "needs 8 x gpu with memory >= 141Gi; a node has 8 x gpu with memory 80Gi"),
        ("b", "h200"): ("Capacity", "needs 2 free nodes; 1 of 2 nodes is free"),
        ("c", None): ("ClusterTaints", "taint team (NoSchedule) is not tolerated"),
        ("d", None): ("ClusterReady", "the cluster is not ready"),
    }


def test_the_trace_shows_scores_of_what_was_not_chosen():
    decided = survey(place(1), Fleet.of([EAST, WEST]))
    assert [(c.cluster, c.pool, c.verdict) for c in decided.trace.candidates()] == [
        ("east", "h200", CandidateVerdict.CHOSEN),
        ("west", "h200", CandidateVerdict.ELIGIBLE),
    ]
    (west,) = [c for c in decided.trace.candidates() if c.cluster == "west"]
    assert dict(west.parts) == {"spread": 1.0, "headroom": 0.9375}
    assert west.score == pytest.approx(0.96875)


@pytest.mark.parametrize(
    ("asked", "held", "why"),
    [
        pytest.param(
            place(1, required=(labelled(region="west"),)),
            replica("east", 0, **SERVING),
            "its cluster matches none of the required selectors",
            id="affinity was edited",
        ),
        pytest.param(
            place(1),
            replica("east", 0, assignment("gone"), **SERVING),
            "its cluster has no pool gone",
            id="its pool is gone",
        ),
        pytest.param(
            place(1, engine(name="other")),
            replica("east", 0, **SERVING),
            "the deployment has other engines",
            id="engines were renamed",
        ),
        pytest.param(
            place(1, engine(request(9))),
            replica("east", 0, **SERVING),
            "pool h200: needs 9 x gpu; a node has 8 x gpu",
            id="more than a node has",
        ),
    ],
)
def test_why_a_replica_moves(asked, held, why):
    decided = schedule(asked, Fleet.of([EAST], [held]))
    (moving,) = [placement for placement in decided.placements if placement.replica.id == held.id]
    assert (moving.decision.value, moving.why) == ("Moving", why)


def test_a_cluster_without_the_label_of_a_spread_rule_is_excluded(decide):
    bare = cluster("bare")
    assert decide(place(2, spread=(SpreadRule("region"),)), [bare, EAST]) == (
        ["east/h200#0 New", "east/h200#1 New"],
        [],
        0,
    )
    decided = survey(place(1, spread=(SpreadRule("region"),)), Fleet.of([bare]))
    assert [(c.filter, c.reason) for c in decided.trace.candidates()] == [("Spread", "the cluster has no label region")]


def test_prices_in_another_currency_are_not_compared():
    dear = cluster("a", msgspec.structs.replace(pool("x"), price=Price(90.0, "EUR")))
    cheap = cluster("b", msgspec.structs.replace(pool("x"), price=Price(30.0, "USD")))
    parts = {c.cluster: dict(c.parts)["price"] for c in survey(place(0), Fleet.of([dear, cheap])).trace.candidates()}
    assert parts == {"a": 1.0, "b": 1.0}


def test_a_pool_that_is_free_of_charge_is_the_cheapest():
    free, dear = cluster("a", pool("x", price=0.0)), cluster("b", pool("x", price=30.0))
    parts = {c.cluster: dict(c.parts)["price"] for c in survey(place(0), Fleet.of([free, dear])).trace.candidates()}
    assert parts == {"a": 1.0, "b": 0.0}


def test_a_place_without_a_price_is_neither_cheap_nor_dear():
    unknown, dear = cluster("a", pool("x")), cluster("b", pool("x", price=30.0))
    parts = {c.cluster: dict(c.parts)["price"] for c in survey(place(0), Fleet.of([unknown, dear])).trace.candidates()}
    assert parts == {"a": 0.5, "b": 1.0}


def test_a_refusal_of_one_engine_names_it():
    asked = place(1, engine(request(1), name="decode"), engine(request(9), name="prefill"))
    found = {(c.pool, c.engine): (c.filter, c.reason) for c in schedule(asked, Fleet.of([EAST])).trace.candidates()}
    assert found == {
        (None, ""): ("Pools", "0 of 1 pools can take engine prefill"),
        ("h200", "prefill"): ("Devices", "needs 9 x gpu; a node has 8 x gpu"),
    }


FOUR = hardware(kind(count=4))
WEIGHED = ScoreWeights(spread=1.0)
"""The default weight, stated: scores decide, and spreading is one of them."""


def places(decided):
    return [(p.replica.cluster, p.replica.assignments[0].pool) for p in decided.placements]


def test_ties_between_clusters_that_changed_in_the_pass_break_on_their_names():
    """A third replica on a scores as much as the first on b, up to rounding."""
    clusters = [
        cluster("a", pool("p", 3, price=20.0), pool("q", 3, FOUR, price=10.0)),
        cluster("b", pool("p", 1, FOUR)),
    ]
    decided = schedule(place(3, engine(request(1)), weights=WEIGHED), Fleet.of(clusters))
    assert places(decided) == [("a", "p"), ("a", "p"), ("a", "q")]


def test_the_next_replica_may_sit_on_another_pool_of_the_same_cluster():
    """The first takes the pool that has a price and is cheap; the second finds room on the pool that has none."""
    clusters = [
        cluster("a", pool("p", 3, FOUR), pool("q", 2, FOUR, price=10.0)),
        cluster("b", pool("p", 1, FOUR, price=20.0)),
    ]
    several = (engine(request(2)), engine(request(2), name="prefill"))
    assert places(schedule(place(2, *several, weights=WEIGHED), Fleet.of(clusters))) == [("a", "q"), ("a", "p")]


def test_the_next_replica_may_be_cheaper_on_devices_of_another_class():
    """The first on a takes the only device of class a, which is a whole node; the next takes an eighth of class b."""
    mixed = hardware(kind("a", 1, device_class="a.class"), kind("b", 8, device_class="b.class"))
    single = hardware(kind(count=1))
    clusters = [
        cluster("a", pool("o", 0), pool("p", 1, mixed, price=8.0)),
        cluster("b", pool("p", 4, single, price=10.0)),
        cluster("c", pool("p", 1, single, price=1.0)),
    ]
    by_price = ScoreWeights(spread=1, headroom=0, price=1)
    assert places(schedule(place(3, weights=by_price), Fleet.of(clusters))) == [("a", "p"), ("a", "p"), ("c", "p")]


def test_a_fleet_of_clusters_without_pools_says_what_each_lacks():
    bare = [
        cluster("a", pools=(), ready=False, hardware_known=False),
        cluster("b", pools=(), hardware_known=False),
        cluster("c", pools=(), ready=False),
        cluster("d", pools=(), labels={"region": "d"}, deletion="it holds replicas"),
    ]
    found = schedule(place(1), Fleet.of(bare)).trace.candidates()
    assert [(c.cluster, c.filter, c.reason, c.may_pass) for c in found] == [
        ("a", "ClusterReady", "the cluster is not ready", True),
        ("b", "Pools", "the cluster has no pools yet", True),
        ("c", "Pools", "the cluster has no pools", False),
        ("d", "ClusterReady", "the cluster is being deleted: it holds replicas", False),
    ]


@pytest.mark.slow
def test_ten_thousand_replicas_are_placed_and_have_indexes_of_their_own():
    wide = [cluster(f"c{at:02}", pool("p", 64)) for at in range(20)]
    decided = schedule(place(10_000), Fleet.of(wide))
    assert decided.pending == 0
    assert [p.replica.index for p in decided.placements] == [*range(500)] * 20


@pytest.mark.parametrize(("claims", "placed"), [((), 0), ((("gpu", 8, 1),), 3), ((("gpu", 4, 2),), 2)])
def test_devices_that_others_hold_by_one_claim_are_in_the_way_on_one_node_only(claims, placed):
    """Eight devices of others on four nodes of eight: one by one they may be on all of them."""
    shared = msgspec.structs.replace(pool("p", 4), held_by_others=(("gpu", 8),), claims_of_others=claims)
    decided = schedule(place(4, WHOLE), Fleet.of([cluster("a", shared)]))
    assert len(decided.placements) == placed


def test_a_gang_takes_a_rack_as_a_whole_where_each_rack_is_a_pool():
    """NVL72: 18 nodes of four devices. One device in use keeps a gang of all of them away from that rack."""
    rack = hardware(kind(count=4))
    racks = cluster("a", pool("rack-1", 18, rack), pool("rack-2", 18, rack))
    used = replica("a", 0, assignment("rack-1"), name="other", serving=True)
    (placed,) = schedule(place(1, engine(request(4), nodes=18)), Fleet.of([racks], [used])).placements
    assert placed.replica.assignments[0].pool == "rack-2"
    assert schedule(place(2, engine(request(4), nodes=18)), Fleet.of([racks], [used])).pending == 1


def test_replicas_where_a_spread_rule_has_no_value_count_for_none(decide):
    """The replica on b has no zone: a and c are even without it."""
    zones = [cluster(name, labels={"zone": name}) for name in ("a", "c")]
    asked = place(3, spread=(SpreadRule("zone", 1),))
    placements, _, pending = decide(asked, [*zones, cluster("b")], [replica("b", serving=True)])
    assert (sorted(placements), pending) == (
        ["a/h200#0 New", "b/h200#0 Kept", "c/h200#0 New"],
        0,
    )


def test_a_survey_judges_one_more_beside_replicas_that_are_there():
    fleet = Fleet.of([cluster("a", pool(nodes=2))], [replica("a", 0, assignment("h200", claim(8)), serving=True)])
    asked = place(2, engine(request(8)))
    found = survey(asked, fleet)
    assert [p.replica.index for p in found.placements] == [0, 1]
    (reason,) = [candidate.reason for candidate in found.trace.candidates()]
    assert reason == "holds 2 replicas; one more is refused: Capacity: needs 1 free node; 0 of 2 nodes are free"


def test_a_survey_counts_each_replica_once():
    """East has one that serves, and west gets one."""
    found = survey(place(2), Fleet.of([EAST, WEST], [replica("east", 0, **SERVING)]))
    assert [(c.cluster, c.verdict, c.replicas) for c in found.trace.candidates()] == [
        ("east", CandidateVerdict.CHOSEN, 1),
        ("west", CandidateVerdict.CHOSEN, 1),
    ]


def test_one_that_moves_and_has_not_started_is_dropped_once_where_its_pool_is_oversubscribed(decide):
    held = [replica("east", at, assignment("h200", claim(8)), created=f"2026-01-0{at + 1}") for at in (0, 1)]
    asked = place(2, WHOLE, cluster_selector=labelled(region="west"))
    assert decide(asked, [cluster("east", pool(nodes=1))], held) == (
        ["east/h200#0 Moving"],
        ["east#1 Oversubscribed"],
        1,
    )


def test_what_moves_is_not_lost_where_others_are_oversubscribed():
    """Two replicas start on one node of east, and one serves in west, which is not selected any more."""
    clusters = [cluster("east", pool(nodes=1), labels={"region": "east"}), WEST]
    whole = assignment("h200", claim(8))
    held = [
        *(replica("east", at, whole, created=f"2026-01-0{at + 1}") for at in (0, 1)),
        replica("west", 2, whole, **SERVING),
    ]
    decided = schedule(place(3, WHOLE, cluster_selector=labelled(region="east")), Fleet.of(clusters, held))
    assert [(p.replica.id, p.decision, p.why) for p in decided.placements] == [
        (held[0].id, ReplicaDecision.KEPT, ""),
        (held[2].id, ReplicaDecision.MOVING, "its cluster no longer matches the clusterSelector"),
    ]
    why = "its pool or quota is oversubscribed, and other replicas rank before it"
    assert decided.dropped == (Dropped(held[1], DropReason.OVERSUBSCRIBED, why),)


def test_a_refusal_is_reported_once_where_nothing_moves():
    recorder = StepRecorder()
    schedule(place(2, WHOLE), Fleet.of([cluster("a", pool(nodes=1))]), reporter=recorder)
    assert [(subject.places, refusal.filter) for subject, refusal, *_ in recorder.refusals] == [
        ((("a", 0),), "Capacity")
    ]


class FirstPoolOnly:
    """Reads the place of an offer, which is not known while an eviction is only tried."""

    name, stage = "first-pool-only", FilterStage.OFFER

    def __init__(self, *_made):
        pass

    def refuse(self, _state, offer):
        return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "no") if offer.places[0][1] else None


def test_a_replica_that_serves_stays_where_no_successor_is_placed_after_all(shown):
    known = builtin_types().extended([plugin_type("first-pool-only", FirstPoolOnly, NoParameters)])
    spec = default_spec()
    added = msgspec.structs.replace(spec, plugins=(*spec.plugins, PluginUse("first-pool-only")))
    clusters = [cluster("a", pool("o", 1, hardware(kind(count=1))), pool("p", 1))]
    held = [replica("a", 0, assignment("p", claim(8)), serving=True)]
    asked = place(1, engine(request(8)), outdated=frozenset({("a", 0)}))
    for profile, expected in (
        (build_profile(spec), (["a/p#1 New"], ["a#0 Replaced"], 0)),
        (build_profile(added, known), (["a/p#0 Moving"], [], 0)),
    ):
        assert shown(schedule(asked, Fleet.of(clusters, held), profile=profile)) == expected


def test_nobody_is_evicted_for_a_place_that_is_free_and_refused():
    """The pool that is free is the second one, and whoever is evicted leaves the first."""
    known = builtin_types().extended([plugin_type("first-pool-only", FirstPoolOnly, NoParameters)])
    spec = default_spec()
    profile = build_profile(msgspec.structs.replace(spec, plugins=(*spec.plugins, PluginUse("first-pool-only"))), known)
    where = cluster("a", pool("o", 1, hardware(kind(count=1))), pool("p", 1), priorities=PRIORITIES)
    low = replica("a", 0, assignment("o"), name="low", priority="silver", **SERVING)
    decided = schedule(place(1, WHOLE, priority="gold", may_preempt=True), Fleet.of([where], [low]), profile=profile)
    assert (decided.pending, decided.preemption) == (1, None)
