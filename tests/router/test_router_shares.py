from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from modelplane.router.shares import ShareLedger


def test_the_most_owed_is_smooth_weighted_round_robin():
    ledger, weights, found = ShareLedger(), {"a": 7.0, "b": 2.0, "c": 1.0}, []
    for _ in range(10):
        group = ledger.most_owed(weights)
        ledger.take(group, weights)
        found.append(group)
    assert Counter(found) == {"a": 7, "b": 2, "c": 1}
    assert "".join(found) != "aaaaaaabbc"


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 100), min_size=1), st.integers(50, 400))
def test_shares_hold_over_any_number_of_choices(weights, count):
    ledger, found = ShareLedger(), Counter()
    for _ in range(count):
        group = ledger.most_owed(weights)
        ledger.take(group, weights)
        found[group] += 1
    total = sum(weights.values())
    for group, weight in weights.items():
        assert abs(found[group] - count * weight / total) <= len(weights) + 1


def test_a_group_that_is_always_preferred_gets_a_tenth_more_than_its_share():
    ledger, weights, found = ShareLedger(), {"a": 1.0, "b": 1.0}, Counter()
    for _ in range(5000):
        group = "b" if ledger.is_over("a", 0.5) else "a"
        ledger.take(group, weights)
        found[group] += 1
    assert 0.5 < found["a"] / 5000 < 0.58


def test_a_group_that_was_away_is_not_flooded_when_it_returns():
    ledger = ShareLedger()
    for _ in range(1000):
        ledger.take("a", {"a": 1.0})
    first = []
    for _ in range(10):
        group = ledger.most_owed(["a", "b"])
        ledger.take(group, {"a": 1.0, "b": 1.0})
        first.append(group)
    assert Counter(first) == {"a": 5, "b": 5}


def test_weights_of_nothing_charge_nobody():
    ledger = ShareLedger()
    ledger.take("a", {"a": 0.0})
    assert ledger.credit("a") == 0.0
