"""Why an artifact was not staged. The class decides the exit code, and so what the caller does next.

HydrateError             1   permanent: the source or its content is wrong; trying again does not help
├── OutOfSpaceError     28   the volume is too small (28 is ENOSPC)
└── TryAgainError       75   temporary: the same command goes on where it stopped (75 is EX_TEMPFAIL)
    └── SourceChangedError   the source changed while it was read; it has to be resolved again
"""

import errno

from modelplane.api.errors import ModelplaneError

EXIT_FAILED = 1
EXIT_NO_SPACE = 28
EXIT_TRY_AGAIN = 75
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class HydrateError(ModelplaneError):
    """The artifact cannot be staged, and trying again does not help."""

    exit_code = EXIT_FAILED


class OutOfSpaceError(HydrateError):
    """The volume has no room for the artifact."""

    exit_code = EXIT_NO_SPACE


class TryAgainError(HydrateError):
    """Something outside failed for the moment."""

    exit_code = EXIT_TRY_AGAIN

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoppedError(TryAgainError):
    """A signal came, or the deadline passed."""


class SourceChangedError(TryAgainError):
    """A file is no longer what the source listed."""


def as_hydrate_error(error: OSError) -> HydrateError:
    """What the volume refuses. Everything that a source raises is a HydrateError already."""
    if error.errno in _OUT_OF_SPACE:
        return OutOfSpaceError("the volume is full")
    return HydrateError(f"the volume cannot be written: {error.strerror or error}")
