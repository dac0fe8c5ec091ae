import pytest

from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateGroup, CandidateVerdict, PlacementTrace, TraceReporter, summarise
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
