import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.reconcile.backoff import backoff_s
from modelplane.reconcile.settings import LoopSettings

PLAIN = LoopSettings(backoff_first_s=0.5, backoff_most_s=4.0, backoff_jitter=0.0)


def test_waits_double_up_to_the_bound():
    assert [backoff_s("a", attempt, PLAIN) for attempt in range(1, 7)] == [0.5, 1, 2, 4, 4, 4]


def test_the_spread_is_the_same_in_every_process():
    waits = [round(backoff_s(("team-a", "llama"), attempt, LoopSettings()), 6) for attempt in (1, 2, 3)]
    assert waits == [0.088698, 0.189181, 0.380507]


@given(key=st.text(), attempt=st.integers(1, 10_000), jitter=st.floats(0, 0.99))
def test_a_wait_is_never_longer_than_the_bound_nor_shorter_than_the_spread_allows(key, attempt, jitter):
    settings = LoopSettings(backoff_first_s=0.5, backoff_most_s=4.0, backoff_jitter=jitter)
    full = backoff_s(key, attempt, PLAIN)
    assert full * (1 - jitter) <= backoff_s(key, attempt, settings) <= full


@pytest.mark.parametrize("attempt", [1, 5])
def test_keys_broken_by_one_cause_return_at_different_times(attempt):
    assert len({backoff_s(f"replica-{number}", attempt, LoopSettings()) for number in range(100)}) == 100
