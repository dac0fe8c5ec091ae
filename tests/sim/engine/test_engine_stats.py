import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine.stats import EngineHistogram, token_buckets


@pytest.mark.parametrize(("most", "expected"), [(1, (1,)), (100, (1, 2, 5, 10, 20, 50, 100)), (7, (1, 2, 5))])
def test_buckets_of_lengths(most, expected):
    assert token_buckets(most) == expected


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5))))
def test_a_histogram_counts_every_value_below_its_bound(values):
    histogram = EngineHistogram((1, 2, 5))
    for value, times in values:
        histogram.observe(value, times)
    for index, bound in enumerate(histogram.bounds):
        below = sum(times for value, times in values if value <= bound)
        assert sum(histogram.counts[: index + 1]) == below
    assert histogram.total == pytest.approx(sum(value * times for value, times in values))


def test_the_moments_of_a_request(rig):
    bench = rig(max_num_seqs=1)
    bench.submit("a", prompt=4, answer=1)
    bench.submit("b", prompt=6, answer=3)
    bench.clock.run()
    stats = bench.stats
    # b waits for a's 1.04 s, then takes 1.02 s as four of its tokens are cached, and two steps of 1.017 and 1.018 s.
    assert stats.queued.total == pytest.approx(1.04)
    assert stats.first_token.total == pytest.approx(1.04 + 1.04 + 1.02)
    assert stats.prefill.total == pytest.approx(1.04 + 1.02)
    assert stats.decode.total == pytest.approx(1.017 + 1.018)
    assert stats.between_tokens.total == pytest.approx(1.017 + 1.018)
    assert stats.per_token.total == pytest.approx((1.017 + 1.018) / 2)
    assert stats.inference.total == pytest.approx(1.04 + 1.02 + 1.017 + 1.018)
    assert stats.whole.total == pytest.approx(1.04 + 1.04 + 1.02 + 1.017 + 1.018)
    assert (stats.prompt_lengths.total, stats.answer_lengths.total) == (10, 4)
    assert (stats.prompt_tokens, stats.generation_tokens, sum(stats.step_tokens.counts)) == (10, 4, 4)
