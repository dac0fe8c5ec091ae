"""Moments as Kubernetes writes them."""

from datetime import UTC, datetime


def epoch_s(moment: str | None) -> float | None:
    """In seconds of the epoch; None for what is no such moment."""
    if not moment:
        return None
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()


def written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
