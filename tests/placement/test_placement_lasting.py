"""What can never be placed says so, whatever keeps places closed or full for a while."""

import pytest

from modelplane.api.labels import DRAIN
from modelplane.api.meta import PoolName
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.lasting import lasting_first, never_assigned
from modelplane.placement.request import CacheRequest, SpreadRule
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo, Effect, PlacementTaint, Pool, Price, QueueInfo
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    place,
    pool,
    product_is,
    replica,
    request,
    taint,
    tolerate,
)

DRAINED = PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, 0.0, 1, None)
EIGHT, NINE = engine(request(8)), engine(request(9))
TOO_FEW = ("Devices", "needs 9 x gpu; a node has 8 x gpu", False)


def trace_of(asked, clusters, replicas=(), caches=()):
    return schedule(asked, Fleet.of(clusters, replicas, caches)).trace


def answers(trace):
    return [(found.cluster, found.filter, found.reason, found.may_pass) for found in trace.candidates()]


CLOSED = {
    "nothing": {},
    "a drain": {"taints": (DRAINED,)},
    "a cordon": {"cordoned": True},
    "a drain that its status does not have yet": {"taints": (DRAINED,), "ready": False},
    "not ready": {"ready": False},
    "a cordon and not ready": {"cordoned": True, "ready": False},
}


@pytest.mark.parametrize("closed", CLOSED.values(), ids=CLOSED.keys())
def test_a_cluster_that_is_too_small_is_too_small_whatever_closes_it(closed):
    trace = trace_of(place(1, NINE), [cluster("east"), cluster("west", **closed)])
    assert answers(trace) == [("east", *TOO_FEW), ("west", *TOO_FEW)]
    assert trace.fits_nowhere
    limited = cluster("west", quotas=(("team", 99),), **closed)
    for engines in ((NINE,), (NINE, engine(request(1), name="small"))):
        assert trace_of(place(1, *engines), [limited]).fits_nowhere


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        pytest.param({"taints": (DRAINED,)}, ("ClusterTaints", "it is being drained", True), id="drained"),
        pytest.param({"cordoned": True}, ("Cordoned", "the cluster is cordoned", True), id="cordoned"),
        pytest.param({"ready": False}, ("ClusterReady", "the cluster is not ready", True), id="not ready"),
        pytest.param(
            {"deletion": "it holds replicas"},
            ("ClusterReady", "the cluster is being deleted: it holds replicas", False),
            id="deleted",
        ),
        pytest.param(
            {"deletion": "it holds replicas", "taints": (DRAINED,), "cordoned": True, "ready": False},
            ("ClusterReady", "the cluster is being deleted: it holds replicas", False),
            id="drained for its deletion",
        ),
        pytest.param(
            {"taints": (DRAINED, taint("team")), "cordoned": True},
            ("ClusterTaints", "taint team (NoSchedule) is not tolerated", False),
            id="drained, and of another team",
        ),
    ],
)
def test_the_only_cluster_that_could_hold_it(closed, why):
    """What is drained comes back; what is deleted, or tainted by somebody, does not by itself."""
    trace = trace_of(place(1, NINE), [cluster("east"), cluster("west", pool(of=hardware(kind(count=9))), **closed)])
    assert answers(trace) == [("east", *TOO_FEW), ("west", *why)]
    assert trace.fits_nowhere is not why[-1]


@pytest.mark.parametrize("engines", [(NINE,), (NINE, engine(request(1), name="small"))], ids=["one", "two"])
@pytest.mark.parametrize(
    "unknown", [{"ready": False}, {"pools": ()}, {}], ids=["not ready", "no pools yet", "pools that are not read"]
)
def test_a_cluster_whose_hardware_is_not_known_may_have_what_is_needed(engines, unknown):
    clusters = [cluster("east"), cluster("west", **unknown, hardware_known=False)]
    asked = place(1, *engines)
    assert not trace_of(asked, clusters).fits_nowhere
    assert not survey(asked, Fleet.of(clusters)).trace.fits_nowhere


@pytest.mark.parametrize("held", [False, True], ids=["as its likes", "with a replica"])
def test_pools_that_are_too_small_are_no_answer_while_another_is_not_read(held):
    """The replica on the cluster sets it apart from similar ones; it was placed before the deployment was changed."""
    small, unread = cluster("east"), cluster("west", hardware_known=False)
    running = [replica("west", 0, assignment("h200", claim(8)), serving=True)] if held else []
    wait = ("west", "Pools", "not all pools of the cluster are read yet", True)
    one = trace_of(place(2, NINE), [small, unread], running)
    of_pool = [] if held else [("west", *TOO_FEW)]
    assert [found for found in answers(one) if found[1]] == [("east", *TOO_FEW), wait, *of_pool]
    several = trace_of(place(2, NINE, engine(request(1), name="small")), [small, unread], running)
    assert [found for found in answers(several) if found[0] == "west" and found[-1]] == [wait]
    assert not one.fits_nowhere
    assert not several.fits_nowhere


def test_what_refuses_a_cluster_for_good_does_so_whatever_its_pools_are():
    tainted = cluster("west", hardware_known=False, taints=(taint("team"),))
    for engines in ((NINE,), (NINE, engine(request(1), name="small"))):
        trace = trace_of(place(1, *engines), [cluster("east"), tainted])
        assert {found[1] for found in answers(trace) if found[0] == "west"} == {"ClusterTaints"}
        assert trace.fits_nowhere


def test_a_replica_that_leaves_a_drained_cluster_does_not_hide_that_it_is_too_small():
    """The deployment was changed while it drained: the cluster is set apart from similar ones by its replica."""
    for engines in ((NINE,), (NINE, engine(request(1), name="small"))):
        running = replica("west", 0, assignment("h200", claim(8)), serving=True)
        trace = trace_of(place(1, *engines), [cluster("east"), cluster("west", taints=(DRAINED,))], [running])
        assert trace.fits_nowhere
    small = pool("small"), pool("large", of=hardware(kind(count=9)))
    trace = trace_of(place(2, NINE), [cluster("west", *small, taints=(DRAINED,))], [running])
    refused = [(found.pool, found.filter) for found in trace.candidates() if found.filter]
    assert refused == [(None, "ClusterTaints"), ("small", "Devices")]
    assert not trace.fits_nowhere


ZONES = {"spread": (SpreadRule("zone", 1),)}
HOLDER = replica("west", 0, assignment("h200", claim(8), pods=2), name="other", namespace="others")


@pytest.mark.parametrize(
    ("asked", "limit", "why"),
    [
        pytest.param({}, {"quotas": (("team", 4),)}, "Quota", id="quota"),
        pytest.param({}, {"queue": QueueInfo("q", 4)}, "Queue", id="queue"),
        pytest.param(ZONES, {}, "Spread", id="label of a hard spread rule"),
    ],
)
@pytest.mark.parametrize("engines", [(EIGHT,), (engine(request(7)), engine(request(1), name="b"))], ids=["one", "two"])
@pytest.mark.parametrize("closed", [*CLOSED.values(), None], ids=[*CLOSED.keys(), "full pools"])
def test_a_limit_that_is_below_what_is_needed(asked, limit, why, engines, closed):
    there = cluster("west", **limit, **(closed or {}))
    trace = trace_of(place(1, *engines, **asked), [there], [HOLDER] if closed is None else [])
    assert {(name, may_pass) for _, name, _, may_pass in answers(trace)} == {(why, False)}
    assert trace.fits_nowhere


def test_a_full_quota_does_not_hide_a_queue_that_is_too_short():
    limits = {"quotas": (("team", 8),), "queue": QueueInfo("q", 4)}
    holder = replica("west", 0, assignment("h200", claim(1)), name="other")
    assert trace_of(place(1, EIGHT), [cluster("west", **limits)], [holder]).fits_nowhere


@pytest.mark.parametrize(
    ("quota", "expected"),
    [(4, ("Cordoned", True)), (2, ("Cordoned", True)), (1, ("Quota", False))],
    ids=["enough for all ways", "enough for one way", "enough for none"],
)
def test_a_quota_refuses_for_good_what_needs_more_in_every_way(quota, expected):
    """Two engines need a GPU and a device of a fabric each. The fabric is claimed in one pool, and not in the other."""
    claimed, free = (
        hardware(kind("gpu", 8), kind("fabric", 8, product="fabric", device_class=name)) for name in ("fabric", None)
    )
    pools = Pool(PoolName("p"), 1, claimed, price=Price(1.0)), Pool(PoolName("q"), 1, free, price=Price(1.0, "EUR"))
    wanted = request(1, product_is("H200")), request(1, product_is("fabric"), name="fabric")
    asked = place(1, engine(*wanted, name="a"), engine(*wanted, name="b"))
    trace = trace_of(asked, [cluster("west", *pools, quotas=(("team", quota),), cordoned=True)])
    assert [(name, may_pass) for _, name, _, may_pass in answers(trace)] == [expected]


A, B = engine(request(8), name="a"), engine(request(9), name="b")


@pytest.mark.parametrize(
    ("engines", "pools", "held", "nowhere"),
    [
        pytest.param((A, B), (pool(),), 2, True, id="one waits, and the other never fits"),
        pytest.param((B, A), (pool(),), 2, True, id="in the other order"),
        pytest.param((A, engine(request(8), name="b")), (pool(nodes=1),), 0, True, id="never together"),
        pytest.param((A, engine(request(8), name="b")), (pool(nodes=1),), 1, True, id="never together, and full"),
        pytest.param((A, engine(request(8), name="b")), (pool(nodes=2),), 1, False, id="not together now"),
        pytest.param(
            (A, engine(request(8), name="b")),
            (pool(), pool("other", taints=(taint("team"),))),
            2,
            False,
            id="a pool of others changes nothing",
        ),
    ],
)
def test_engines_that_never_fit_a_cluster_do_not_wait_for_room(engines, pools, held, nowhere):
    holders = [replica("west", at, assignment("h200", claim(8)), name="other") for at in range(held)]
    trace = trace_of(place(1, *engines), [cluster("west", *pools)], holders)
    assert trace.fits_nowhere is nowhere


def test_the_pools_are_named_that_never_take_an_engine():
    shapes = Fleet.of([cluster("west", pool("p"), pool("q", of=hardware(kind(count=4))))]).infos["west"].kinds
    found = never_assigned((A, B), shapes)
    assert [(name, at, str(why.reason)) for name, at, why in found.pools] == [
        ("a", 1, "needs 8 x gpu; a node has 4 x gpu"),
        ("b", 0, "needs 9 x gpu; a node has 8 x gpu"),
        ("b", 1, "needs 9 x gpu; a node has 4 x gpu"),
    ]


def test_engines_wait_for_nodes_that_are_missing():
    """Two nodes are declared and one is there: the engines fit when the other comes."""
    half = cluster("west", Pool(PoolName("h200"), 1, hardware(), desired_nodes=2))
    asked = place(1, A, engine(request(8), name="b"))
    assert not trace_of(asked, [half]).fits_nowhere
    shape = Fleet.of([half]).infos["west"].kinds
    assert never_assigned(asked.engines, shape) is None


def test_a_cache_that_is_staged_does_not_hide_that_nothing_fits():
    cache = CacheInfo(namespace="team", name="weights", awaited=frozenset({"east", "west"}))
    asked = {"caches": (CacheRequest("weights"),)}
    assert trace_of(place(1, NINE, **asked), [cluster("east")], (), [cache]).fits_nowhere
    clusters = [cluster("east"), cluster("west", pool(of=hardware(kind(count=9))))]
    trace = trace_of(place(1, NINE, **asked), clusters, (), [cache])
    assert answers(trace) == [("east", *TOO_FEW), ("west", "Caches", "cache weights is being staged here", True)]
    assert [refusal.filter for refusal in trace.decisive] == ["Caches"]


def test_a_drain_is_the_answer_where_other_taints_are_tolerated():
    tainted = cluster("east", taints=(DRAINED, taint("team")))
    trace = trace_of(place(1, EIGHT, tolerations=(tolerate("team"),)), [tainted])
    assert answers(trace) == [("east", "ClusterTaints", "it is being drained", True)]


class Answering:
    def __init__(self, name, code):
        self.name, self._code = name, code

    def refuse(self, _state, _candidate, /):
        return Refusal(self.name, self._code, "no") if self._code else None


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((None, None), None),
        ((RefusalCode.UNSCHEDULABLE, None), "0"),
        ((RefusalCode.UNSCHEDULABLE, RefusalCode.UNRESOLVABLE, RefusalCode.UNRESOLVABLE), "1"),
        ((RefusalCode.UNRESOLVABLE, RefusalCode.UNSCHEDULABLE), "0"),
    ],
)
def test_a_refusal_that_lasts_comes_before_one_that_may_pass(codes, expected):
    found = lasting_first([Answering(str(at), code) for at, code in enumerate(codes)], None, None)
    assert (found.filter if found is not None else None) == expected
