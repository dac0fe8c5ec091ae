"""The order in which scored endpoints are tried."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.framework import Scored
from modelplane.testing.picking import chances, context_of, endpoint, make, seeded

PICKERS = ("max-score-picker", "random-picker", "weighted-random-picker")


def order(type_name, sums, seed=0, **parameters):
    pool = [endpoint(chr(ord("a") + at)) for at in range(len(sums))]
    found = make(type_name, **parameters).order(context_of(pool, chance=seeded(seed)), pool, sums)
    return [pool[at].name for at in found]


@pytest.mark.parametrize(
    ("sums", "parameters", "expected"),
    [
        pytest.param([10.0, 50.0, 30.0], {}, ["b"], id="the best"),
        pytest.param([10.0, 50.0, 30.0], {"maxNumOfEndpoints": 2}, ["b", "c"], id="the best two, in order"),
        pytest.param([10.0, 50.0, 30.0], {"maxNumOfEndpoints": 9}, ["b", "c", "a"], id="no more than there are"),
        pytest.param([10.0, 50.0, 30.0], {"maxNumOfEndpoints": 0}, ["b"], id="none counts as one"),
        pytest.param([10.0, 50.0, 30.0], {"maxNumOfEndpoints": -3}, ["b"], id="less than none as well"),
    ],
)
def test_max_score(sums, parameters, expected):
    assert order("max-score-picker", sums, **parameters) == expected


def test_max_score_takes_any_of_the_best_and_no_other():
    seen = {tuple(order("max-score-picker", [50.0, 50.0, 30.0], seed, maxNumOfEndpoints=2)) for seed in range(40)}
    assert seen == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize("type_name", PICKERS)
def test_as_many_as_wanted_and_at_least_one(type_name):
    found = {most: len(order(type_name, [3.0, 2.0, 1.0], maxNumOfEndpoints=most)) for most in (-1, 0, 1, 2, 3, 9)}
    assert (found, len(order(type_name, [3.0, 2.0]))) == ({-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 9: 3}, 1)


@pytest.mark.parametrize("equals", [2, 4])
@pytest.mark.parametrize("type_name", ["max-score-picker", "random-picker"])
def test_one_of_equals_is_picked_by_one_draw(type_name, equals):
    drawn = chances(0.5, 0.25, 0.0)
    pool = [endpoint(name) for name in "abcd"[:equals]]
    found = make(type_name).order(context_of(pool, chance=drawn), pool, [1.0] * equals)
    assert (list(found), drawn()) == ([equals // 2], 0.25)


def test_max_score_draws_only_for_those_that_may_be_picked():
    drawn = chances(0.5, 0.25, 0.0)
    pool = [endpoint(name) for name in "abcd"]
    found = make("max-score-picker", maxNumOfEndpoints=2).order(context_of(pool, chance=drawn), pool, [1.0, 3, 2, 1])
    assert (list(found), drawn()) == ([1, 2], 0.25)


def share(type_name, sums):
    counts = Counter(order(type_name, sums, seed)[0] for seed in range(4000))
    return {name: round(count / 4000, 1) for name, count in counts.items()}


def test_equals_share_the_load():
    assert share("max-score-picker", [1.0, 1.0, 0.5, 1.0, 1.0, 1.0]) == dict.fromkeys("abdef", 0.2)
    assert share("random-picker", [0.0, 9.0, 5.0, 1.0, 1.0]) == dict.fromkeys("abcde", 0.2)


def test_weighted_random_is_as_likely_as_the_scores():
    assert share("weighted-random-picker", [3.0, 1.0, 1.0, 0.0]) == {"a": 0.6, "b": 0.2, "c": 0.2}
    assert share("weighted-random-picker", [0.6, 0.2, 0.2, 0.0]) == {"a": 0.6, "b": 0.2, "c": 0.2}
    assert share("weighted-random-picker", [0.0, 0.0]) == {"a": 0.5, "b": 0.5}


def test_weighted_random_puts_a_draw_of_0_last_of_those_with_a_score():
    pool = [endpoint(name) for name in "abc"]
    picker = make("weighted-random-picker", maxNumOfEndpoints=3)
    found = picker.order(context_of(pool, chance=chances(0.0, 0.1)), pool, [9.0, 1.0, 0.0])
    assert list(found) == [1, 0, 2]


def test_weighted_random_puts_those_without_a_score_last():
    for seed in range(50):
        assert order("weighted-random-picker", [30.0, 0.0], seed, maxNumOfEndpoints=2) == ["a", "b"]


@given(
    st.sampled_from(PICKERS),
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_same_pick_whatever_the_order_of_endpoints(type_name, sums, seed, most, random):
    pool = [endpoint(f"e{at}") for at in range(len(sums))]
    picker = make(type_name, maxNumOfEndpoints=most)
    mixed = list(range(len(pool)))
    random.shuffle(mixed)

    def names(positions):
        listed = [pool[at] for at in positions]
        context = context_of(listed, chance=seeded(seed))
        return [listed[at].name for at in picker.order(context, listed, [sums[at] for at in positions])]

    found = names(range(len(pool)))
    assert found == names(mixed)
    assert len(set(found)) == len(found) == min(most, len(pool))


@given(
    st.sampled_from(PICKERS),
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
    st.integers(0, 2**32),
    st.integers(1, 3),
)
def test_picking_from_scored_values_is_the_same(type_name, sums, seed, most):
    pool = [endpoint(f"e{at}") for at in range(len(sums))]
    picker = make(type_name, maxNumOfEndpoints=most)
    scored = [Scored(each, total, ()) for each, total in zip(pool, sums, strict=True)]
    by_value = picker.pick(context_of(pool, chance=seeded(seed)), scored)
    by_place = picker.order(context_of(pool, chance=seeded(seed)), pool, sums)
    assert [found.candidate for found in by_value] == [pool[at] for at in by_place]
