import pytest

from modelplane.api.labels import DRAIN
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.decisions import Placement, ReplicaDecision
from modelplane.placement.offers import ClusterView, OfferedAssignment, PlacementOption, first_fit
from modelplane.placement.pool_usage import EMPTY
from modelplane.placement.request import ScoreWeights
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.trace import CandidateGroup, CandidateVerdict, PlacementTrace, TraceReporter, summarise
from modelplane.placement.values import Effect, PlacementTaint
from modelplane.testing.fleets import (
    assignment,
    cluster,
    engine,
    hardware,
    kind,
    place,
    pool,
    product_is,
    replica,
    request,
)


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


def test_a_cluster_that_takes_no_more_says_so_of_each_pool_that_holds_replicas():
    held = [replica("east", at, assignment(name), serving=True) for at, name in enumerate(("one", "two"))]
    cordoned = Fleet.of([cluster("east", pool("one"), pool("two"), cordoned=True)], held)
    reason = "holds a replica; one more is refused: Cordoned: the cluster is cordoned"
    found = schedule(place(3), cordoned).trace.candidates()
    assert [(c.pool, c.reason) for c in found if c.pool] == [("one", reason), ("two", reason)]


def test_a_place_that_takes_more_says_its_score():
    (found,) = survey(place(1, WHOLE), fleet(cluster("east"))).trace.candidates()
    assert (found.reason, found.may_pass) == ("holds a replica", False)
    assert found.score is not None


def test_a_place_that_is_free_is_not_refused():
    found = survey(place(1, WHOLE), fleet(cluster("east"), cluster("west"))).trace.candidates()
    assert [(each.verdict, each.may_pass) for each in found] == [
        (CandidateVerdict.CHOSEN, False),
        (CandidateVerdict.ELIGIBLE, False),
    ]


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
    assert summarise(refusals[1:]) == "4 x F: r4; 3 x F: r3; 2 x F: r2"
    assert summarise(refusals[:2]) == "2 x F: r2; F: r1"
    assert summarise((refusal, 1) for refusal, _ in reversed(refusals[:2])) == "F: r1; F: r2"


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


ALIKE = fleet(*map(cluster, "abcd"))
REFUSED = Refusal("F", RefusalCode.UNSCHEDULABLE, "full")


def option(names, *, engines=1, version=0):
    """Places on the first pool of clusters, in the first tier."""
    info = make_cluster_info(cluster("a"))
    fit = first_fit(WHOLE, info.kinds[0], EMPTY)
    view = ClusterView(info.profile, (), info.cluster, 0)
    assignments = (OfferedAssignment(info.kinds[0], 0, fit),) * engines
    return PlacementOption(view, tuple((name, 0) for name in names), assignments, version=version)


def group(name, version):
    return CandidateGroup(((name, 0),), whole=True, version=version)


def trace_of(*reports, on=""):
    """Of answers for subjects, scores or refusals, where a replica is on each of some clusters."""
    reporter = TraceReporter()
    for subject, answer in reports:
        if isinstance(answer, Refusal):
            reporter.refused("p", subject, answer)
        else:
            reporter.scored("p", subject, answer, ())
    return PlacementTrace(
        reporter.findings(), ALIKE.infos, [Placement(replica(name), ReplicaDecision.KEPT) for name in on]
    )


def told(found):
    answer = found.reason if found.score is None else f"{found.score} in tier {found.tier}"
    return f"{found.cluster}{'/' if found.pool else ''}{found.pool or ''} {found.verdict}: {answer}"


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param(
            [(option("abc"), 0.5)],
            ["a/h200 Eligible: 0.5 in tier 1", "b/h200 Eligible: 0.5 in tier 1", "c/h200 Eligible: 0.5 in tier 1"],
            id="all alike",
        ),
        pytest.param(
            [(option("abc"), 0.5), (group("b", 1), REFUSED)],
            ["a/h200 Eligible: 0.5 in tier 1", "c/h200 Eligible: 0.5 in tier 1", "b Refused: full"],
            id="one is refused as a whole",
        ),
        pytest.param(
            [(option("abc"), 0.5), (option("b", version=1), REFUSED), (option("c", version=2, engines=2), REFUSED)],
            ["a/h200 Eligible: 0.5 in tier 1", "b/h200 Refused: full", "c Refused: full"],
            id="one is refused on its pool, and one for several engines",
        ),
        pytest.param(
            [(option("abc"), REFUSED), (option("b", version=1), 0.5), (option("c", version=1), 0.25)],
            ["b/h200 Eligible: 0.5 in tier 1", "c/h200 Eligible: 0.25 in tier 1", "a/h200 Refused: full"],
            id="two are scored",
        ),
        pytest.param(
            [(option("abc"), 0.5), (option("b", version=1), 0.75), (option("b", version=2), REFUSED)],
            ["a/h200 Eligible: 0.5 in tier 1", "c/h200 Eligible: 0.5 in tier 1", "b/h200 Refused: full"],
            id="one changes twice",
        ),
    ],
)
def test_what_is_found_of_a_cluster_that_changed_replaces_what_was_found_of_like_ones(reports, expected):
    trace = trace_of(*reports)
    shown, omitted = trace.shown(8)
    assert (sorted(map(told, shown)), omitted) == (sorted(expected), 0)
    assert [told(found) for found in trace.candidates()] == sorted(expected)
    assert trace.total == len(expected)


def test_the_best_place_is_shown_first_and_what_is_refused_for_good_last():
    lasting = Refusal("F", RefusalCode.UNRESOLVABLE, "too small")
    shown, omitted = trace_of(
        (option("a"), lasting), (option("b"), REFUSED), (option("c"), 0.0), (option("d"), 0.5)
    ).shown(3)
    assert ([found.cluster for found in shown], omitted) == (["d", "c", "b"], 1)


def test_where_replicas_are_the_last_that_was_found_of_the_place_is_told():
    found = trace_of((option("abc"), REFUSED), (option("b", version=1), 0.5), on="ab").candidates()
    assert [told(each) for each in found] == [
        "a/h200 Chosen: holds a replica; one more is refused: F: full",
        "b/h200 Chosen: 0.5 in tier 1",
        "c/h200 Refused: full",
    ]


@pytest.mark.parametrize(
    ("weights", "devices", "chosen"),
    [
        pytest.param(ScoreWeights(price=1, spread=0, headroom=0), 16, {"cheap": 1.0}, id="by price"),
        pytest.param(
            *(ScoreWeights(price=0, spread=0, headroom=1), 12, {"cheap": 0.333333, "dear": 0.333333}), id="by headroom"
        ),
    ],
)
def test_a_pool_of_one_of_several_engines_has_the_score_of_the_best_option_there(weights, devices, chosen):
    large = hardware(kind(count=devices))
    there = fleet(cluster("east", pool("dear", 1, large, price=800.0), pool("cheap", 1, large, price=8.0)))
    asked = place(1, engine(request(4), name="decode"), engine(request(4), name="prefill"), weights=weights)
    assert {found.pool: found.score for found in survey(asked, there).trace.candidates() if found.pool} == chosen
