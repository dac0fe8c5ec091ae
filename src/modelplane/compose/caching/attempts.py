"""Attempts of staging that failed, and when the next begins: after a minute, then twice as long, an hour at most."""

from dataclasses import dataclass

from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.caching.job import StagingAttempt
from modelplane.compose.caching.progress import LoaderStatus, failure
from modelplane.compose.caching.site import Site
from modelplane.compose.causes import Cause
from modelplane.compose.contract import Observed

_BACK_OFF_S = (60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0)
"""After the first failure, the second, and so on; the last for all that follow."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    key: str
    seen: Observed
    attempt: StagingAttempt
    cause: Cause
    since: float
    """When it failed; 0 where that is unknown."""

    @property
    def due(self) -> float:
        """When the next attempt begins."""
        return self.since + (_BACK_OFF_S[self.attempt.number :] or _BACK_OFF_S[-1:])[0]

    def is_due(self, site: Site) -> bool:
        now = site.inputs.request.now
        return bool(now) and now >= self.due


def failed_attempt(site: Site, said: LoaderStatus | None) -> FailedAttempt | None:
    """The last of the attempts that failed."""
    found = [
        FailedAttempt(
            key,
            seen,
            StagingAttempt.parse(key.rpartition("-")[2]),
            cause,
            epoch_s(cause.since) or epoch_s(site.known.failed_at) or site.inputs.request.now,
        )
        for key, seen in site.jobs.items()
        if (cause := failure(seen.manifest, said)) is not None
    ]
    return max(found, key=lambda each: each.attempt.number, default=None)


def next_attempt_words(failed: FailedAttempt) -> str:
    count = failed.attempt.number + 1
    tried = "1 attempt" if count == 1 else f"{count} attempts"
    return f"{tried} failed, the next begins at {timestamp(failed.due)}" if failed.since else ""
