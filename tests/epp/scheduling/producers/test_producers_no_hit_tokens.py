"""Cold requests are spread by their tokens; warm ones are left to others."""

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.no_hit_tokens import NoHitTokensScorer
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
    scorer.pre_request(context_of(tokens, matched, endpoints), decision)


def test_the_endpoint_that_got_the_fewest_tokens_comes_first_and_equal_ones_by_name():
    scorer = NoHitTokensScorer("s")
    assert scorer.score(context_of(), POOL) == [1.0, 0.5, 0.0]
    use(scorer, 0, 1000)
    for _ in range(3):
        use(scorer, 1, 100)
    assert scorer.score(context_of(matched=[0, 0, 0]), POOL) == [0.0, 0.5, 1.0]


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
    for _ in range(200_000):
        use(scorer, 1, 1)
    # Long enough for the unit to start anew, too.
    assert scorer.score(context_of(), POOL) == [0.5, 0.0, 1.0]


def test_the_tokens_that_a_cold_request_used_are_captured_and_restored():
    scorer = NoHitTokensScorer("s")
    for place, tokens in ((2, 5), (0, 70), (1, 6)):
        use(scorer, place, tokens)
    captured = scorer.capture(context_of(endpoints=POOL[:2]))
    assert (list(captured), scorer.capture(context_of(matched=WARM))) == (["ns/pod-0", "ns/pod-1"], None)
    replayed = NoHitTokensScorer("s")
    replayed.restore(context_of(), captured)
    assert replayed.score(context_of(), POOL) == [0.0, 0.5, 1.0]
