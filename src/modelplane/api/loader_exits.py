"""Exit codes of the loader, each with its reason. A Job's condition has the code, so every host knows the reason.

Only 75 may be better at the next attempt; a Job ends at once with any other. The numbers are those of sysexits.h and,
for a full volume, ENOSPC.
"""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.api.reasons import Reason

EXIT_TRY_AGAIN = 75
EXIT_INCOMPLETE = 74
"""Of `hydrate check`, which no Job runs: a volume does not hold what was staged there."""
_EXIT_FAILED = 1
EXIT_REASONS: Mapping[int, Reason] = MappingProxyType(
    {
        _EXIT_FAILED: Reason.STAGING_FAILED,
        2: Reason.INVALID,
        28: Reason.NO_SPACE,
        65: Reason.DIGEST_MISMATCH,
        66: Reason.SOURCE_NOT_FOUND,
        EXIT_TRY_AGAIN: Reason.SOURCE_UNREACHABLE,
        76: Reason.SOURCE_INVALID,
        77: Reason.UNAUTHORIZED,
        78: Reason.OUTBOUND_REFUSED,
    }
)
PERMANENT = tuple(code for code in EXIT_REASONS if code != EXIT_TRY_AGAIN)
_CODES = {reason: code for code, reason in EXIT_REASONS.items()}


def exit_code(reason: Reason) -> int:
    """The code that a loader ends with for a reason that does not pass by itself."""
    return _CODES.get(reason, _EXIT_FAILED)
