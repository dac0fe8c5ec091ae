"""The numbers that a loop runs by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Every wait is in seconds of the injected clock.

    backoff_first_s, backoff_most_s: a failed pass is retried after the first, then twice that, up to the most.
    backoff_jitter: at most this share is taken off each wait, so that keys broken by one cause do not return together.
    requeue_least_s: floor under RequeueAfter, so that a careless 0 cannot spin.
    breaker_passes, breaker_window_s: more passes than this in one window, each caused by a change, open the breaker.
    breaker_probe_s: how long an open breaker holds changes back before it lets one pass through.
    grace_s: how long passes may go on after the loop is stopped.
    """

    backoff_first_s: float = 0.1
    backoff_most_s: float = 60.0
    backoff_jitter: float = 0.2
    requeue_least_s: float = 0.01
    breaker_passes: int = 50
    breaker_window_s: float = 10.0
    breaker_probe_s: float = 30.0
    grace_s: float = 5.0

    def __post_init__(self) -> None:
        waits = (self.backoff_first_s, self.requeue_least_s, self.breaker_window_s, self.breaker_probe_s)
        if not all(wait > 0 for wait in waits):
            raise ValueError("loop settings: every wait must be above 0 s")
        if self.backoff_most_s < self.backoff_first_s:
            raise ValueError("loop settings: backoff_most_s is below backoff_first_s")
        if not 0 <= self.backoff_jitter < 1:
            raise ValueError("loop settings: backoff_jitter must be in [0, 1)")
        if self.breaker_passes < 1 or self.grace_s < 0:
            raise ValueError("loop settings: breaker_passes must be at least 1 and grace_s at least 0")
