"""Retries: how long to wait after a failure, and when to give up."""

import random

from modelplane.hydrate.errors import HydrateError, TryAgainError
from modelplane.hydrate.settings import RetryPolicy


class FailureCount:
    """Failures of one part: how long to wait after each, and when to give up."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._count = 0

    def delay_s(self, error: HydrateError, *, moved: bool) -> float:
        self._count = 1 if moved else self._count + 1
        if self._count >= self._policy.attempts:
            raise error
        bound = min(self._policy.longest_s, self._policy.first_s * 2.0 ** (self._count - 1))
        retry_after = error.retry_after_s if isinstance(error, TryAgainError) else None
        return max(retry_after or 0.0, random.uniform(0, bound))  # noqa: S311  jitter, not a secret
