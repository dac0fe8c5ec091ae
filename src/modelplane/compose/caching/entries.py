"""The entry of a cluster in a cache's status that says why the cache is not there."""

import msgspec

from modelplane.api.models import CacheOnCluster
from modelplane.compose.causes import MAX_MESSAGE, Cause


def with_cause(entry: CacheOnCluster, phase: str, cause: Cause, more: str = "") -> CacheOnCluster:
    """`more` is for the message alone: attempts and times. The cause stays the same while nothing else is wrong."""
    message = "; ".join(filter(None, (cause.message, more)))
    return msgspec.structs.replace(
        entry,
        phase=phase,
        reason=cause.reason.value,
        message=message[:MAX_MESSAGE] or None,
        cause=cause.message[:MAX_MESSAGE] or None,
    )
