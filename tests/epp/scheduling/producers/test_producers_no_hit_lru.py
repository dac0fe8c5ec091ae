"""Cold requests are spread by turns; warm ones are left to others."""

import pytest

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.parameters import NoHitLruParameters
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.no_hit_lru import TYPES, NoHitLruScorer
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.requests import Request

POOL = tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(5))


def context_of(matched=None, endpoints=POOL) -> SchedulingContext:
    context = SchedulingContext(Request("r"), endpoints, 0.0, lambda: 0.0)
    if matched is not None:
        put_prefix(context, "p", PrefixMatch(4, 64, matched))
    return context


def use(scorer, place, *, matched=None, prefill=None) -> None:
    others = () if prefill is None else (("prefill", (POOL[prefill],)),)
    decision = Decision(Outcome.PICKED, ((POOL[place],),), others=others)
    assert scorer.pre_request(context_of(matched), decision) == ()


def test_never_used_come_first_in_their_order_then_the_longest_unused():
    scorer = NoHitLruScorer("s")
    assert scorer.score(context_of(), POOL) == [1.0, 0.75, 0.5, 0.25, 0.0]
    use(scorer, 0)
    use(scorer, 3)
    use(scorer, 0)
    assert scorer.score(context_of([0] * 5), POOL) == [0.0, 1.0, 0.75, 0.25, 0.5]


def test_a_cached_prompt_scores_neutral_and_records_nothing():
    scorer = NoHitLruScorer("s")
    warm = [0, 0, 3, 0, 0]
    assert scorer.score(context_of(warm), POOL) == [0.5] * 5
    use(scorer, 0, matched=warm)
    assert scorer.score(context_of(), POOL)[0] == 1.0


@pytest.mark.parametrize("field", ["prefix_match_info_producer_name", "prefix_plugin_name"])
def test_the_index_is_named_by_its_name_or_by_the_older_one(field):
    found = [NoHitLruScorer("s", NoHitLruParameters(**{field: name})) for name in ("p", "q")]
    assert [scorer.score(context_of([0, 0, 3, 0, 0]), POOL)[0] for scorer in found] == [0.5, 1.0]


def test_one_endpoint_is_the_best():
    assert [NoHitLruScorer("s").score(context_of(), POOL[:most]) for most in (1, 2)] == [[1.0], [1.0, 0.0]]


def test_the_endpoint_that_prefills_counts_as_used():
    scorer = NoHitLruScorer("s")
    use(scorer, 1, prefill=0)
    assert scorer.score(context_of(), POOL[:3]) == [0.0, 0.5, 1.0]


def test_no_more_are_remembered_than_wanted_and_none_that_left():
    scorer = NoHitLruScorer("s", NoHitLruParameters(lru_size=2))
    for place in (0, 1, 2):
        use(scorer, place)
    assert scorer.score(context_of(), POOL[:3]) == [1.0, 0.5, 0.0]
    scorer.endpoints_changed(POOL[:2])
    assert scorer.score(context_of(), POOL[:3]) == [1.0, 0.0, 0.5]


def test_the_order_that_a_cold_request_used_is_captured_and_restored():
    scorer = NoHitLruScorer("s")
    for place in (2, 0, 1):
        use(scorer, place)
    captured = scorer.capture(context_of(endpoints=POOL[:2]))
    assert (captured, scorer.capture(context_of([0, 0, 3, 0, 0]))) == (["ns/pod-0", "ns/pod-1"], None)
    replayed = NoHitLruScorer("s")
    replayed.restore(context_of(endpoints=POOL[:3]), captured)
    assert replayed.score(context_of(), POOL[:3]) == [0.5, 0.0, 1.0]


def test_what_is_read():
    assert [(each.name, each.consumes) for each in TYPES] == [("no-hit-lru-scorer", ("prefix",))]
