"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime
from functools import lru_cache

from modelplane.api.meta import Timestamp


def epoch_s(text: str | None) -> float | None:
    """In seconds since the epoch; None for what is no such time."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()


def timestamp(now_s: float) -> Timestamp:
    return _timestamp(int(now_s))


@lru_cache(maxsize=16)
def _timestamp(second: int) -> Timestamp:
    """Asked for many times a second, and then never again."""
    return Timestamp(datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
