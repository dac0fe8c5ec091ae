"""Why something does not serve: a reason, the words of whoever found it, and since when.

Reasons are ranked. Of several causes the worst is shown: one that does not pass by itself before one that may, and a
stage of every start last.
"""

import re
from collections.abc import Iterable

import msgspec

from modelplane.api.meta import Timestamp
from modelplane.api.reasons import Reason

MAX_MESSAGE = 512
WORST_FIRST = (
    Reason.CLUSTER_LOST,
    Reason.AGENT_DISCONNECTED,
    Reason.AGENT_UNKNOWN,
    Reason.CLUSTER_MISSING,
    Reason.INVALID,
    Reason.NOT_SUPPORTED,
    Reason.CACHE_MISSING,
    Reason.CACHE_FAILED,
    Reason.CACHE_INCOMPLETE,
    Reason.IMAGE_PULL_FAILED,
    Reason.SECRET_MISSING,
    Reason.CONFIG_MAP_MISSING,
    Reason.CONTAINER_START_FAILED,
    Reason.CRASH_LOOPING,
    Reason.OOM_KILLED,
    Reason.QUEUE_MISSING,
    Reason.QUOTA_EXCEEDED,
    Reason.WORKLOAD_FAILED,
    Reason.POD_FAILED,
    Reason.VOLUME_PENDING,
    Reason.CLAIM_PENDING,
    Reason.UNSCHEDULABLE,
    Reason.ROUTE_REJECTED,
    Reason.UNHEALTHY,
    Reason.SCHEDULING_GATED,
    Reason.UNRESOLVED,
    Reason.WAITING_FOR_GATEWAY,
    Reason.CACHE_STAGING,
    Reason.WAITING_FOR_CACHES,
    Reason.CONTAINER_CREATING,
    Reason.LOADING_WEIGHTS,
    Reason.WARMING_UP,
    Reason.CREATING,
    Reason.WORKLOAD_STARTING,
    Reason.ROUTE_PENDING,
    Reason.STARTING,
    Reason.TERMINATING,
    Reason.DELETING,
)
FAULTS = frozenset(WORST_FIRST[: WORST_FIRST.index(Reason.SCHEDULING_GATED)]) | {
    Reason.FITS_NOWHERE,
    Reason.INSUFFICIENT_CAPACITY,
    Reason.NO_CLUSTERS,
    Reason.INVALID_SELECTOR,
    Reason.NOT_RUNNABLE,
    Reason.PROGRESS_DEADLINE_EXCEEDED,
    Reason.ROLLOUT_HALTED,
    Reason.DRAIN_DEADLINE,
    Reason.CLASS_MISSING,
    Reason.CLASS_INVALID,
    Reason.PROVISIONING_FAILED,
    Reason.REQUIREMENTS_MISSING,
    Reason.INSTALLATION_FAILED,
    Reason.COLLECTOR_FAILED,
    Reason.SECRET_INVALID,
    Reason.NOT_OURS,
    Reason.BROKEN,
}
"""Reasons that somebody should act on: an event says each that is new, and it is a warning."""
_OF_STAGING = frozenset(
    {
        *(Reason.VOLUME_LOST, Reason.VOLUME_MISSING, Reason.NO_STORAGE, Reason.NO_SPACE, Reason.OUTBOUND_REFUSED),
        *(Reason.SOURCE_NOT_FOUND, Reason.SOURCE_UNREACHABLE, Reason.SOURCE_INVALID, Reason.UNAUTHORIZED),
        *(Reason.DIGEST_MISMATCH, Reason.STAGING_TIMED_OUT, Reason.STAGING_FAILED),
    }
)
STAGING_FAULTS = FAULTS | _OF_STAGING
"""Reasons of a cache on a cluster that say more than that it is being staged."""
LOSSES = _OF_STAGING | {
    *(Reason.UNRESOLVED, Reason.WAITING_FOR_CLUSTER, Reason.WAITING_FOR_GATEWAY),
    *(Reason.NO_ENDPOINTS, Reason.NO_READY_ENDPOINTS, Reason.CALLER_KEYS_MISSING, Reason.CALLER_KEYS_INVALID),
    *(Reason.OUTBOUND_PARTLY_REFUSED, Reason.PROVIDER_NOT_REACHED, Reason.HOST_NOT_FOUND, Reason.PARTLY_STAGED),
}
"""Reasons that are a warning where something held before. At a start they pass, or an event of a cluster says them.

All other reasons are stages that somebody wanted: of a start, an update, a drain or a deletion.
"""
_RANKS = {reason.value: rank for rank, reason in enumerate(WORST_FIRST)}
_HIDDEN = "[redacted]"
_CREDENTIALS = (
    (re.compile(r"(://[^/\s:@]+:)[^@\s/]+@"), rf"\g<1>{_HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}"), rf"\g<1> {_HIDDEN}"),
    (re.compile(r"\b(?:hf_|sk-|ghp_|glpat-|xox[abp]-|AKIA|ASIA)[A-Za-z0-9_-]{8,}"), _HIDDEN),
    (re.compile(r"(?i)(x-amz-signature|x-amz-security-token|x-goog-signature|sig)=[^&\s\"']+"), rf"\g<1>={_HIDDEN}"),
    (
        re.compile(
            r"(?i)\b([a-z0-9_.-]*(?:token|password|passwd|secret_?key|access_?key|api_?-?key))(\s*[=:]\s*)[^\s,;]+"
        ),
        rf"\g<1>\g<2>{_HIDDEN}",
    ),
)


class Cause(msgspec.Struct, frozen=True):
    """`since` is None where nobody says."""

    reason: Reason
    message: str
    since: Timestamp | None = None


def rank(reason: str) -> int:
    """How bad a reason is: 0 is the worst. One that is not ranked passes by itself."""
    return _RANKS.get(reason, len(_RANKS))


def worst(causes: Iterable[Cause]) -> Cause | None:
    """The worst cause; of equally bad ones the oldest."""
    return min(causes, key=lambda cause: (rank(cause.reason), cause.since or "~", cause.message), default=None)


def in_words(text: str, limit: int = MAX_MESSAGE) -> str:
    """What a cluster says, in one line, without what looks like a credential, and bounded."""
    line = " ".join(text.split())
    for pattern, replacement in _CREDENTIALS:
        line = pattern.sub(replacement, line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def last_line(text: str) -> str:
    """The last line that says something: programs end with their error."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "").strip()
