"""An even spread is the rule; scores decide among clusters with equally many replicas."""

from collections import Counter

import msgspec
import pytest

from modelplane.framework import Weighted
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.offers import ClusterView, OfferedAssignment, PlacementOption, first_fit
from modelplane.placement.plugins import is_steady
from modelplane.placement.pool_usage import EMPTY
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.request import CacheRequest, Preference, ScoreWeights, SpreadRule
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.scorers import (
    PriceScorer,
    SpreadScorer,
    StagedScorer,
    StickinessScorer,
    TopologySpreadScorer,
)
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import assignment, claim, cluster, engine, labelled, place, pool, replica, request

WHOLE_NODE = engine(request(8))


def per_cluster(decided):
    return Counter(p.replica.cluster for p in decided.placements)


CHEAP, DEAR = cluster("cheap", pool(nodes=4, price=50.0)), cluster("dear", pool(nodes=4, price=85.0))


@pytest.mark.parametrize(
    ("says", "price", "expected"),
    [
        ({}, 85.0, {"cheap": 2, "dear": 2}),
        ({}, 500.0, {"cheap": 2, "dear": 2}),
        ({"spread": (SpreadRule("region", hard=True),)}, 85.0, {"cheap": 2, "dear": 2}),
        ({"weights": ScoreWeights(price=2.0)}, 85.0, {"cheap": 3, "dear": 1}),
        ({"weights": ScoreWeights(price=100.0)}, 85.0, {"cheap": 4}),
        ({"preferred": (Preference(1, labelled(region="west")),)}, 85.0, {"cheap": 1, "dear": 3}),
    ],
    ids=["nothing", "ten times the price", "a hard rule", "a weight", "price first", "a preference"],
)
def test_replicas_spread_evenly_unless_something_else_is_said_to_count(says, price, expected):
    labels = [
        msgspec.structs.replace(CHEAP, labels={"region": "east"}),
        cluster("dear", pool(nodes=4, price=price), labels={"region": "west"}),
    ]
    assert per_cluster(schedule(place(4, WHOLE_NODE, **says), Fleet.of(labels))) == expected


def test_an_odd_replica_goes_where_the_score_is_better():
    assert per_cluster(schedule(place(3, WHOLE_NODE), Fleet.of([CHEAP, DEAR]))) == {"cheap": 2, "dear": 1}


def test_clusters_share_what_a_full_one_cannot_take():
    small = cluster("small", pool(nodes=1, price=1.0))
    found = per_cluster(schedule(place(6, WHOLE_NODE), Fleet.of([CHEAP, DEAR, small])))
    assert found == {"cheap": 3, "dear": 2, "small": 1}


def test_replicas_that_are_placed_do_not_move_for_an_even_spread():
    held = [replica("cheap", at, assignment("h200", claim(8)), serving=True) for at in range(3)]
    decided = schedule(place(4, WHOLE_NODE), Fleet.of([CHEAP, DEAR], held))
    assert per_cluster(decided) == {"cheap": 3, "dear": 1}
    assert decided.dropped == ()


def test_a_profile_with_weights_of_its_own_weighs_the_spread_too():
    weights = {PriceScorer: 100.0}
    scorers = tuple(Weighted(w.scorer, weights.get(type(w.scorer), 1.0)) for w in DEFAULT_PROFILE.scorers)
    thrifty = msgspec.structs.replace(DEFAULT_PROFILE, scorers=scorers)
    assert per_cluster(schedule(place(4, WHOLE_NODE), Fleet.of([CHEAP, DEAR]), profile=thrifty)) == {"cheap": 4}


def test_without_a_scorer_for_spreading_only_scores_decide():
    scorers = tuple(found for found in DEFAULT_PROFILE.scorers if not isinstance(found.scorer, SpreadScorer))
    dear = cluster("dear", pool(nodes=4, price=500.0))
    decided = schedule(
        place(4, WHOLE_NODE), Fleet.of([CHEAP, dear]), profile=msgspec.structs.replace(DEFAULT_PROFILE, scorers=scorers)
    )
    assert per_cluster(decided) == {"cheap": 4}


def test_a_score_that_weighs_nothing_is_not_shown():
    found = survey(place(1, weights=ScoreWeights(spread=0)), Fleet.of([CHEAP])).trace.candidates()
    assert [[name for name, _ in candidate.parts] for candidate in found] == [["headroom", "price"]]


@pytest.mark.parametrize(
    ("amount", "score"), [(8.0, 0.5), (4.0, 1.0), (2.0, 1.0), (0.0, 1.0)], ids=["dearer", "equal", "cheaper", "free"]
)
def test_the_cheapest_place_that_was_seen_first_has_the_best_score_and_so_has_a_cheaper_one(amount, score):
    state = SchedulingCycle(place(), Fleet.of([]), 0.0)
    state.cheapest["USD"] = 4.0
    kind = make_cluster_info(cluster("a", pool(price=amount))).kinds[0]
    fit = first_fit(WHOLE_NODE, kind, EMPTY)
    option = msgspec.structs.replace(option_on(CHEAP), assignments=(OfferedAssignment(kind, 0, fit),))
    assert PriceScorer().score(state, [option]) == [score]


def option_on(found, **fields):
    info = make_cluster_info(found)
    return PlacementOption(ClusterView(info.profile, (), found), ((found.name, 0),), (), **fields)


def test_only_a_cluster_that_a_replica_leaves_is_sticky():
    options = [option_on(CHEAP, returning=True), option_on(DEAR)]
    assert StickinessScorer().score(SchedulingCycle(place(), Fleet.of([]), 0.0), options) == [1.0, 0.0]


def test_a_successor_stays_on_the_cluster_that_its_predecessor_leaves(decide):
    """Cluster c is emptier, and a has a replica that stays."""
    fleet = [cluster(name, pool(nodes=4)) for name in "abc"]
    held = [replica(name, 0, assignment("h200", claim(8)), serving=True) for name in "ab"]
    asked = place(2, WHOLE_NODE, outdated=frozenset({("b", 0)}))
    assert decide(asked, fleet, held) == (["a/h200#0 Kept", "b/h200#0 Moving", "b/h200#1 New"], [], 0)


def test_a_cluster_that_has_half_of_the_caches_gets_half_of_the_score():
    caches = [CacheInfo(namespace="team", name=name, staged=frozenset(on)) for name, on in (("x", "a"), ("y", "ab"))]
    state = SchedulingCycle(place(caches=tuple(map(CacheRequest, "xy"))), Fleet.of(caches=caches), 0.0)
    assert StagedScorer().score(state, [option_on(cluster(name)) for name in "abc"]) == [1.0, 0.5, 0.0]


def test_all_preferred_spread_rules_count_alike():
    """East is even by zone and by rack. West is one ahead by zone."""
    clusters = [cluster(name, labels={"zone": name, "rack": "1"}) for name in ("east", "west")]
    rules = tuple(SpreadRule(key, hard=False) for key in ("zone", "rack"))
    state = SchedulingCycle(place(1, spread=rules), Fleet.of(clusters), 0.0)
    for domain, count, values in zip(state.domains, ({"west": 1}, {"1": 1}), (("east", "west"), "1"), strict=True):
        domain.counts.update(count)
        domain.values.update(values)
    assert TopologySpreadScorer().score(state, [option_on(found) for found in clusters]) == [1.0, 0.75]


def test_hard_spread_rules_are_no_matter_of_scores():
    """East and west are even by zone, and west has the only replica by rack."""
    clusters = [
        cluster(name, labels={"zone": name, "rack": "1" if name == "west" else "2"}) for name in ("east", "west")
    ]
    rules = SpreadRule("zone", hard=True), SpreadRule("rack", hard=False)
    state = SchedulingCycle(place(1, spread=rules), Fleet.of(clusters), 0.0)
    for domain, count in zip(state.domains, ({"east": 3}, {"1": 1}), strict=True):
        domain.counts.update(count)
        domain.values.update({"east", "west"} if domain.rule.hard else {"1", "2"})
    assert TopologySpreadScorer().score(state, [option_on(found) for found in clusters]) == [1.0, 0.5]


def test_what_scorers_say_of_themselves():
    scorers = [weighted.scorer for weighted in DEFAULT_PROFILE.scorers]
    assert [(each.name, is_steady(each), getattr(each, "evenly", False)) for each in scorers] == [
        ("spread", True, True),
        ("staged", True, False),
        ("headroom", True, False),
        ("price", True, False),
        ("stickiness", True, False),
        ("preferred", True, False),
        ("topology", False, False),
    ]
    assert DEFAULT_PROFILE.picker.name == "best-first"
