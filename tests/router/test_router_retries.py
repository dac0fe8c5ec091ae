"""Retries are a share of the requests, and a reserve."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.service_plan import RetryBudget
from modelplane.router.retries import RetryTokens


def taken(tokens, most=1000):
    """How many retries are allowed in a row."""
    return next(number for number in range(most) if not tokens.take())


@pytest.mark.parametrize(
    ("budget", "requests", "retries"),
    [
        (RetryBudget(10, 0), 1000, 0),
        (RetryBudget(10, 3), 0, 3),
        (RetryBudget(0, 3), 1000, 3),
        # What was not spent is never more than the reserve.
        (RetryBudget(10, 3), 1000, 3),
    ],
)
def test_a_reserve_can_be_spent_at_once(budget, requests, retries):
    tokens = RetryTokens(budget)
    for _ in range(requests):
        tokens.request()
    assert taken(tokens) == retries


def test_a_spent_reserve_comes_back_by_requests():
    tokens = RetryTokens(RetryBudget(10, 5))
    assert taken(tokens) == 5
    for _ in range(29):
        tokens.request()
    assert taken(tokens) == 2
    tokens.request()
    assert taken(tokens) == 1


def test_a_new_plan_gives_back_nothing_that_was_spent():
    tokens = RetryTokens(RetryBudget(10, 5))
    tokens.take()
    tokens.follow(RetryBudget(10, 5))
    assert taken(tokens) == 4
    tokens.follow(RetryBudget(100, 2))
    assert taken(tokens) == 0
    for _ in range(10):
        tokens.request()
    assert taken(tokens) == 2


@given(
    percent=st.integers(0, 100),
    reserve=st.integers(0, 20),
    tries=st.lists(st.sampled_from(["request", "take"]), max_size=300),
)
def test_retries_are_never_more_than_the_share_and_the_reserve(percent, reserve, tries):
    tokens = RetryTokens(RetryBudget(percent, reserve))
    requests = retries = 0
    for each in tries:
        if each == "request":
            requests += 1
            tokens.request()
        else:
            retries += tokens.take()
        assert retries <= reserve + requests * percent / 100
