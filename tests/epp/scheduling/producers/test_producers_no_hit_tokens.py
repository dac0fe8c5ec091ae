"""Cold requests are spread by their tokens; warm ones are left to others."""

import pytest

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.no_hit_tokens import TYPES, NoHitTokensScorer
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.requests import Request

POOL = tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(3))
WARM = [0, 3, 0]


def context_of(tokens=1, matched=None, endpoints=POOL) -> SchedulingContext:
    context = SchedulingContext(Request("r", prompts=(b"abcd" * tokens,)), endpoints, 0.0, lambda: 0.0)
    if matched is not None:
        put_prefix(context, "p", PrefixMatch(4, 64, matched))
    return context


def use(scorer, place, tokens, *, matched=None, prefill=None, endpoints=POOL) -> None:
    others = () if prefill is None else (("prefill", (endpoints[prefill],)),)
    decision = Decision(Outcome.PICKED, ((endpoints[place],),), others=others)
    assert scorer.pre_request(context_of(tokens, matched, endpoints), decision) == ()


def test_the_endpoint_that_got_the_fewest_tokens_comes_first_and_equal_ones_by_name():
    scorer = NoHitTokensScorer("s")
    assert scorer.score(context_of(), POOL) == [1.0, 0.5, 0.0]
    use(scorer, 0, 1000)
    for _ in range(3):
        use(scorer, 1, 100)
    assert scorer.score(context_of(matched=[0, 0, 0]), POOL) == [0.0, 0.5, 1.0]


def test_one_token_is_more_than_nothing():
    scorer = NoHitTokensScorer("s")
    use(scorer, 0, 1)
    assert scorer.score(context_of(), POOL) == [0.0, 1.0, 0.5]


def test_a_turn_that_was_passed_over_is_still_owed():
    scorer = NoHitTokensScorer("s")
    for place in (0, 1, 2, 0, 2, 0, 1):
        use(scorer, place, 10)
    # By recency the third would be next; it got as much as the second, and the first got more than both.
    assert scorer.score(context_of(), POOL)[0] == 0.0


def test_a_cached_prompt_scores_neutral_and_counts_only_where_it_is_new():
    scorer = NoHitTokensScorer("s")
    assert scorer.score(context_of(matched=WARM), POOL) == [0.5] * 3
    use(scorer, 0, 10)
    use(scorer, 1, 1000, matched=WARM)
    assert scorer.score(context_of(), POOL) == [0.0, 1.0, 0.5]
    use(scorer, 2, 1000, matched=WARM)
    assert scorer.score(context_of(), POOL) == [0.5, 1.0, 0.0]


def test_one_endpoint_is_the_best():
    assert NoHitTokensScorer("s").score(context_of(), POOL[:1]) == [1.0]


def test_the_endpoint_that_prefills_gets_the_tokens_too():
    scorer = NoHitTokensScorer("s")
    use(scorer, 1, 10, prefill=0)
    assert scorer.score(context_of(), POOL) == [0.5, 0.0, 1.0]


def test_one_that_joins_is_next_and_is_not_owed_the_past():
    scorer = NoHitTokensScorer("s")
    scorer.endpoints_changed(POOL[:2])
    for _ in range(20):
        use(scorer, 0, 1000, endpoints=POOL[:2])
        use(scorer, 1, 1001, endpoints=POOL[:2])
    scorer.endpoints_changed(POOL)
    use(scorer, 0, 1, endpoints=POOL)
    assert scorer.score(context_of(), POOL) == [0.5, 0.0, 1.0]
    use(scorer, 2, 1000)
    assert scorer.score(context_of(), POOL) == [1.0, 0.5, 0.0]


def test_what_was_sent_long_ago_weighs_nothing():
    scorer = NoHitTokensScorer("s")
    use(scorer, 0, 100_000)
    for _ in range(5_000):
        use(scorer, 1, 1)
    assert scorer.score(context_of(), POOL) == [0.5, 0.0, 1.0]


def test_what_was_sent_weighs_the_same_after_the_unit_has_started_anew():
    """A prompt weighs 257 / 256 of the one before, and by the 59 063rd the unit is above 1e100."""
    scorer, found = NoHitTokensScorer("s"), set()
    context, decision = context_of(endpoints=POOL[:1]), Decision(Outcome.PICKED, ((POOL[0],),))
    for number in range(60_000):
        scorer.pre_request(context, decision)
        if number > 59_000:
            found.add(round(scorer.capture(context)["ns/pod-0"], 6))
    assert found == {256.0}


def test_before_anything_was_sent_all_got_nothing():
    scorer = NoHitTokensScorer("s")
    before = scorer.capture(context_of())
    scorer.endpoints_changed(POOL[:2])
    assert (before, scorer.capture(context_of())) == ({}, {"ns/pod-0": 0.0, "ns/pod-1": 0.0})


def test_what_is_read():
    assert [(each.name, each.consumes) for each in TYPES] == [("no-hit-tokens-scorer", ("prefix",))]


def test_the_tokens_that_a_cold_request_used_are_captured_and_restored():
    scorer = NoHitTokensScorer("s")
    for place, tokens in ((2, 5), (0, 70), (1, 6)):
        use(scorer, place, tokens)
    captured = scorer.capture(context_of(endpoints=POOL[:2]))
    assert scorer.capture(context_of(matched=WARM)) is None
    # Each prompt makes those before weigh less, by one part of 256 for each of three endpoints.
    assert captured == pytest.approx({"ns/pod-0": 70 / (1 + 1 / 768) ** 2, "ns/pod-1": 6 / (1 + 1 / 768)}, rel=1e-9)
    replayed = NoHitTokensScorer("s")
    for _ in range(100):
        use(replayed, 2, 1)
    replayed.restore(context_of(), captured)
    assert replayed.score(context_of(), POOL) == [0.0, 0.5, 1.0]
    assert replayed.capture(context_of()) == pytest.approx(captured, rel=1e-9)
