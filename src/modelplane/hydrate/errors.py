"""Why an artifact was not staged. The reason decides the exit code, and so what the caller does next.

HydrateError                 permanent: trying again does not help; each reason has its code
├── OutOfSpaceError          the volume is too small
├── SourceInvalidError       the source has content that cannot be staged
└── TryAgainError            temporary: the same command goes on where it stopped
    ├── StoppedError         a signal came, or the deadline passed
    └── SourceChangedError   the source changed while it was read; it has to be resolved again
"""

import errno

from modelplane.api.errors import ModelplaneError
from modelplane.api.loader_exits import EXIT_TRY_AGAIN, exit_code
from modelplane.api.reasons import Reason

_REFUSALS = {
    **dict.fromkeys((401, 403, 407, 451), Reason.UNAUTHORIZED),
    **dict.fromkeys((404, 410), Reason.SOURCE_NOT_FOUND),
}
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class HydrateError(ModelplaneError):
    """The artifact cannot be staged, and trying again does not help."""

    reason = Reason.STAGING_FAILED

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.reason

    @property
    def exit_code(self) -> int:
        return exit_code(self.reason)


class OutOfSpaceError(HydrateError):
    """The volume has no room for the artifact."""

    reason = Reason.NO_SPACE


class SourceInvalidError(HydrateError):
    """The source has content that cannot be staged."""

    reason = Reason.SOURCE_INVALID


class TryAgainError(HydrateError):
    """Something outside failed for the moment."""

    reason = Reason.SOURCE_UNREACHABLE

    def __init__(self, message: str, reason: Reason | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(message, reason)
        self.retry_after_s = retry_after_s

    @property
    def exit_code(self) -> int:
        return EXIT_TRY_AGAIN


class StoppedError(TryAgainError):
    """A signal came, or the deadline passed."""

    reason = Reason.POD_FAILED


class SourceChangedError(TryAgainError):
    """A file is no longer what the source listed."""


def refusal_reason(status: int) -> Reason | None:
    """What an HTTP status that says no means."""
    return _REFUSALS.get(status)


def as_hydrate_error(error: OSError) -> HydrateError:
    """What the volume refuses. Everything that a source raises is a HydrateError already."""
    if error.errno in _OUT_OF_SPACE:
        return OutOfSpaceError("the volume is full")
    return HydrateError(f"the volume cannot be written: {error.strerror or error}")
