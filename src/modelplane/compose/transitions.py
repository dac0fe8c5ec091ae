"""Events for conditions that changed since the last pass."""

from collections.abc import Iterable

from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.reasons import Reason
from modelplane.compose.contract import Event, EventType

_FAULTS = frozenset(
    {
        Reason.INVALID,
        Reason.NOT_SUPPORTED,
        Reason.CLUSTER_MISSING,
        Reason.CACHE_MISSING,
        Reason.CACHE_FAILED,
        Reason.SECRET_MISSING,
        Reason.SECRET_INVALID,
        Reason.CONFIG_MAP_MISSING,
        Reason.WORKLOAD_FAILED,
        Reason.PROGRESS_DEADLINE_EXCEEDED,
    }
)
_BY_WORD = {reason.value: reason for reason in Reason}


def transitions(before: Iterable[Condition], now: Iterable[Condition]) -> tuple[Event, ...]:
    """An event for each condition that turned True, ceased to be True, or has a new fault."""
    known = {condition.type: condition for condition in before}
    return tuple(event for condition in now if (event := _event(known.get(condition.type), condition)) is not None)


def _event(before: Condition | None, now: Condition) -> Event | None:
    held = before is not None and before.status is ConditionStatus.TRUE
    holds = now.status is ConditionStatus.TRUE
    same_reason = before is not None and before.reason == now.reason
    text = f"{now.type}: {now.message}" if now.message else str(now.type)
    if holds and before is not None and not held:
        return Event(EventType.NORMAL, _BY_WORD[now.reason], text)
    if not holds and (held or (now.reason in _FAULTS and not same_reason)):
        return Event(EventType.WARNING, _BY_WORD[now.reason], text)
    return None
