import pytest

from modelplane.reconcile.settings import LoopSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"backoff_first_s": 0},
        {"requeue_least_s": -1},
        {"breaker_window_s": 0},
        {"breaker_probe_s": float("nan")},
        {"backoff_first_s": 2, "backoff_most_s": 1},
        {"backoff_jitter": 1},
        {"backoff_jitter": -0.1},
        {"breaker_passes": 0},
        {"grace_s": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="loop settings: "):
        LoopSettings(**wrong)
