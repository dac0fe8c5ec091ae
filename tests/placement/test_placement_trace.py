import pytest

from modelplane.api.labels import DRAIN
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateGroup, CandidateVerdict, PlacementTrace, TraceReporter, summarise
from modelplane.placement.values import Effect, PlacementTaint
from modelplane.testing.fleets import cluster, engine, place, pool, product_is, request


def fleet(*clusters):
    return Fleet.of(clusters, ())


WHOLE = engine(request(8))
FULL = "holds 2 replicas; one more is refused: Capacity: needs 1 free node; 0 of 2 nodes are free"


def test_a_full_place_says_why_it_takes_no_more_beside_what_it_holds():
    there = fleet(cluster("east"))
    (found,) = schedule(place(3, WHOLE), there).trace.candidates()
    assert (found.verdict, found.reason, found.may_pass) == (CandidateVerdict.CHOSEN, FULL, True)
    shown, omitted = schedule(place(3, WHOLE), there).trace.shown(8)
    assert ([candidate.reason for candidate in shown], omitted) == ([FULL], 0)


def test_a_place_that_takes_more_says_its_score():
    (found,) = survey(place(1, WHOLE), fleet(cluster("east"))).trace.candidates()
    assert (found.reason, found.may_pass) == ("holds a replica", False)
    assert found.score is not None


def test_engines_are_named_where_a_place_is_refused_for_one_of_them():
    asked = place(2, engine(request(8), name="a"), engine(request(8), name="b"))
    found = schedule(asked, fleet(cluster("east", pool("one", 1), pool("two", 1)))).trace.candidates()
    assert [candidate.reason for candidate in found if candidate.verdict is CandidateVerdict.CHOSEN] == [
        "holds a replica; one more is refused: Capacity: engine a: needs 1 free node; 0 of 1 nodes are free"
    ] * 2


@pytest.mark.parametrize(
    ("asked", "nowhere"),
    [
        (place(3, WHOLE), False),
        (place(1, engine(request(9))), True),
        (place(1, engine(request(1, product_is("X")))), True),
    ],
)
def test_what_no_empty_pool_would_take_fits_nowhere(asked, nowhere):
    assert schedule(asked, fleet(cluster("east"))).trace.fits_nowhere is nowhere


DRAINED = PlacementTaint(DRAIN, "", Effect.NO_EXECUTE, 0.0, 1, None)
NINE, PAIR = engine(request(9)), (engine(request(8), name="a"), engine(request(9), name="b"))
TOO_FEW = "Devices: needs 9 x gpu; a node has 8 x gpu"


@pytest.mark.parametrize(
    ("asked", "there", "nowhere", "why"),
    [
        pytest.param(
            place(1, WHOLE), {"taints": (DRAINED,)}, False, "ClusterTaints: it is being drained", id="drained"
        ),
        pytest.param(place(1, NINE), {"taints": (DRAINED,)}, True, TOO_FEW, id="drained, and too small"),
        pytest.param(place(1, WHOLE), {"cordoned": True}, False, "Cordoned: the cluster is cordoned", id="cordoned"),
        pytest.param(place(1, NINE), {"cordoned": True}, True, TOO_FEW, id="cordoned, and too small"),
        pytest.param(
            place(1, NINE),
            {"cordoned": True, "ready": False, "hardware_known": False},
            False,
            "Cordoned: the cluster is cordoned",
            id="cordoned, and nobody knows what it has",
        ),
        pytest.param(
            place(1, *PAIR),
            {"taints": (DRAINED,)},
            True,
            f"Pools: 0 of 1 pools can take engine b; b: {TOO_FEW}",
            id="drained, and too small for one of two engines",
        ),
        pytest.param(
            place(1, PAIR[0], WHOLE),
            {"taints": (DRAINED,)},
            False,
            "ClusterTaints: it is being drained",
            id="drained, with room for both engines",
        ),
    ],
)
def test_what_takes_nothing_for_a_while_is_judged_by_its_hardware(asked, there, nowhere, why):
    trace = schedule(asked, fleet(cluster("east", **there))).trace
    said = (f"{found.engine}: {found.filter}" if found.engine else found.filter for found in trace.candidates())
    reasons = (found.reason for found in trace.candidates())
    assert trace.fits_nowhere is nowhere
    assert "; ".join(map(": ".join, zip(said, reasons, strict=True))) == why


def test_a_drained_pool_that_is_too_small_says_so():
    there = fleet(cluster("east", pool("h200", taints=(DRAINED,)), pool("spare", 0)))
    trace = schedule(place(1, NINE), there).trace
    assert trace.fits_nowhere
    assert [(found.pool, found.filter) for found in trace.candidates()] == [("h200", "Devices"), ("spare", "Devices")]


def test_nothing_that_was_found_is_room_to_wait_for():
    assert PlacementTrace().fits_nowhere
    assert PlacementTrace().candidates() == ()


def test_the_commonest_refusals_are_summarised():
    refusals = [(Refusal("F", RefusalCode.UNSCHEDULABLE, "r{}", (at,)), at) for at in (1, 2, 3, 4)]
    assert summarise(refusals) == "4 x F: r4; 3 x F: r3; 2 x F: r2; and 1 other reasons"


def test_only_options_have_scores():
    listener = TraceReporter()
    listener.scored("p", CandidateGroup((("east", 0),)), 0.5, ())
    assert listener.findings() == ()


def test_each_full_pool_says_why_it_takes_no_more():
    full = "one more is refused: Capacity: needs 1 free node; 0 of {0} nodes are free"
    found = schedule(place(4, WHOLE), fleet(cluster("east", pool("one", 1), pool("two", 2)))).trace.candidates()
    assert {candidate.pool: candidate.reason for candidate in found} == {
        "one": f"holds a replica; {full.format(1)}",
        "two": f"holds 2 replicas; {full.format(2)}",
    }
