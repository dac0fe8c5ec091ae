import pytest

from modelplane.reconcile.breaker import Breaker
from modelplane.reconcile.settings import LoopSettings

SETTINGS = LoopSettings(breaker_passes=3, breaker_window_s=10, breaker_probe_s=30)


@pytest.mark.parametrize(
    ("added_at", "answers"),
    [
        pytest.param([0, 0, 0], [None, None, None], id="as many as the limit run"),
        pytest.param([0, 1, 2, 3], [None, None, None, 33], id="one more opens it"),
        pytest.param([0, 4, 8, 10], [None, None, None, None], id="the window slides"),
        pytest.param([0, 4, 8, 9.9], [None, None, None, 39.9], id="just inside the window"),
        pytest.param([0, 0, 0, 0, 5, 29], [None, None, None, 30, 30, 30], id="changes meanwhile wait for one probe"),
        pytest.param([0, 0, 0, 0, 30, 31, 60], [None, None, None, 30, None, 60, None], id="a probe each interval"),
        pytest.param([0, 0, 0, 0, 31, 32], [None, None, None, 30, None, 61], id="the interval starts at the probe"),
        pytest.param([0, 0, 0, 0, 30, 60, 60, 60, 60], [None] * 3 + [30, None] + [None] * 3 + [90], id="quiet resets"),
    ],
)
def test_answers(added_at, answers):
    breaker = Breaker(SETTINGS)
    assert [breaker.hold_until("a", now) for now in added_at] == answers


def test_keys_do_not_share_a_breaker_and_forgetting_resets_one():
    breaker = Breaker(SETTINGS)
    for _ in range(4):
        breaker.hold_until("a", 0)
    assert (breaker.hold_until("b", 0), breaker.open_keys(0)) == (None, ("a",))
    breaker.forget("a")
    assert (breaker.hold_until("a", 0), breaker.open_keys(0)) == (None, ())


def test_an_open_breaker_shows_until_a_whole_interval_was_quiet():
    breaker = Breaker(SETTINGS)
    for _ in range(4):
        breaker.hold_until("a", 0)
    breaker.hold_until("a", 30)
    assert [breaker.open_keys(now) for now in (30, 59, 60)] == [("a",), ("a",), ()]


def test_a_held_change_keeps_it_open_until_the_probe():
    breaker = Breaker(SETTINGS)
    for _ in range(4):
        breaker.hold_until("a", 0)
    assert breaker.open_keys(1000) == ("a",)


def test_a_closed_breaker_has_forgotten_what_opened_it():
    breaker = Breaker(LoopSettings(breaker_passes=2, breaker_window_s=100, breaker_probe_s=5))
    asked = [("a", 0), ("a", 0), ("a", 0), ("other", 4), ("a", 5), ("a", 11), ("a", 12), ("a", 13)]
    assert [breaker.hold_until(*each) for each in asked] == [None, None, 5, None, None, None, None, 18]


def test_quiet_keys_leave_nothing_behind():
    breaker = Breaker(SETTINGS)
    for number in range(1000):
        breaker.hold_until("busy", number)
        breaker.hold_until(number, number)
    assert len(breaker) == 11
