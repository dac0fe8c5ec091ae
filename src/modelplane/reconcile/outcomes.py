"""The result of one reconciliation. The set is closed: "requeue" never shares a type with "failed"."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until something changes. The key's failure count is reset."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """The key is reconciled again after this many seconds, or sooner when something changes."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The key is retried with exponential back-off."""

    error: Exception


Outcome = Done | RequeueAfter | Failed
