"""Whether an endpoint may get requests, by what its responses said: ejection at failures, and a return by trial.

    HEALTHY   serves
    EJECTED   gets nothing for 1 s, twice as long at each further ejection, up to 30 s
    TRIAL     gets one request at a time; three successes in a row make it healthy, one failure ejects it again

A connection that was refused ejects at once: nobody listens. Other failures (5xx, a reset, a stall) eject at the third
in a row, or when nothing has succeeded for a second while they happen. 429 is no failure: the endpoint is busy, not
broken. Half a minute of health forgets earlier ejections.

Pure: time is an argument. An endpoint that fails every probe is kept ejected; a probe that succeeds ends an ejection
early and begins the trial. One whose connection was closed is doubted until the probe that follows has an answer: it
gets nothing meanwhile where another endpoint is left, and is as before if it answers.
"""

from enum import StrEnum
from typing import Final

FAILURES_TO_EJECT: Final = 3
FAILING_FOR_S: Final = 0.9
SUCCESSES_TO_RETURN: Final = 3
FIRST_EJECTION_S: Final = 1.0
LONGEST_EJECTION_S: Final = 30.0
FORGET_S: Final = 30.0
PROBE_HOLDS_S: Final = 5.0
"""How long a failed check ejects: longer than until the next one, so that no request is spent on a dead endpoint."""


DOUBT_S: Final = 2.0
"""How long a doubt lasts at most: longer than a probe."""


class HealthState(StrEnum):
    HEALTHY = "Healthy"
    EJECTED = "Ejected"
    TRIAL = "Trial"


class EndpointHealth:
    """The health of one endpoint, as this router saw it."""

    __slots__ = (
        "_doubted_until_s", "_ejections", "_failing_since_s", "_failures", "_in_trial", "_since_s", "_state",
        "_successes", "_until_s", "why",
    )  # fmt: skip

    def __init__(self) -> None:
        self._state = HealthState.HEALTHY
        self._failures = 0
        self._failing_since_s = 0.0
        self._ejections = 0
        self._until_s = 0.0
        self._since_s = 0.0
        self._successes = 0
        self._in_trial = 0
        self._doubted_until_s = 0.0
        self.why = ""
        """The last failure, in a few words."""

    def state(self, now_s: float) -> HealthState:
        if self._state is HealthState.EJECTED and now_s >= self._until_s:
            self._begin_trial()
        return self._state

    def admits(self, now_s: float) -> bool:
        """Whether a request may be sent."""
        if now_s < self._doubted_until_s:
            return False
        if self._state is HealthState.HEALTHY:
            return True
        return self.state(now_s) is HealthState.TRIAL and self._in_trial == 0

    def describe(self, now_s: float) -> str:
        """Why it is not admitted."""
        state = self.state(now_s)
        if now_s < self._doubted_until_s and state is not HealthState.EJECTED:
            return "is probed after its connection was closed"
        if state is HealthState.EJECTED:
            return f"is ejected for {self._until_s - now_s:.1f} s after {self.why}"
        return f"is tried with one request at a time after {self.why}"

    def sent(self) -> None:
        """A request was sent."""
        if self._state is HealthState.TRIAL:
            self._in_trial += 1

    def succeeded(self, now_s: float) -> None:
        self._failures = 0
        if self._state is HealthState.TRIAL:
            self._in_trial = max(0, self._in_trial - 1)
            self._successes += 1
            if self._successes >= SUCCESSES_TO_RETURN:
                self._state, self._since_s = HealthState.HEALTHY, now_s
        elif self._state is HealthState.HEALTHY and self._ejections and now_s - self._since_s > FORGET_S:
            self._ejections = 0

    def failed(self, now_s: float, why: str, *, refused: bool = False) -> bool:
        """A request failed there; whether this ejects it."""
        self.why = why
        if self._state is HealthState.EJECTED:
            return False
        if not self._failures:
            self._failing_since_s = now_s
        self._failures += 1
        lasting = self._failures > 1 and now_s - self._failing_since_s >= FAILING_FOR_S
        if refused or lasting or self._failures >= FAILURES_TO_EJECT or self._state is HealthState.TRIAL:
            self._eject(now_s)
            return True
        return False

    def abandoned(self) -> None:
        """The client left before there was a result: it says nothing of the endpoint."""
        if self._state is HealthState.TRIAL:
            self._in_trial = max(0, self._in_trial - 1)

    def doubted(self, now_s: float) -> None:
        """A connection to it was closed. A probe will say whether anybody listens."""
        self._doubted_until_s = now_s + DOUBT_S

    def probed(self, now_s: float, *, answers: bool) -> None:
        """An active check ended."""
        self._doubted_until_s = 0.0
        state = self.state(now_s)
        if answers and state is HealthState.EJECTED:
            self._begin_trial()
        elif not answers and state is not HealthState.EJECTED:
            self.why = "a failed health check"
            self._eject(now_s)
            self._until_s = max(self._until_s, now_s + PROBE_HOLDS_S)
        elif not answers:
            self._until_s = max(self._until_s, now_s + PROBE_HOLDS_S)

    def _eject(self, now_s: float) -> None:
        lasts_s = min(LONGEST_EJECTION_S, FIRST_EJECTION_S * 2.0 ** min(self._ejections, 10))
        self._ejections += 1
        self._state, self._until_s = HealthState.EJECTED, now_s + lasts_s
        self._failures = self._successes = self._in_trial = 0

    def _begin_trial(self) -> None:
        self._state = HealthState.TRIAL
        self._failures = self._successes = self._in_trial = 0
