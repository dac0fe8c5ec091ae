"""Events for conditions that changed since the last pass."""

from collections.abc import Iterable

from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.reasons import Reason
from modelplane.compose.causes import FAULTS, LOSSES
from modelplane.compose.contract import Event, EventType

_BY_WORD = {reason.value: reason for reason in Reason}


def transitions(before: Iterable[Condition], now: Iterable[Condition]) -> tuple[Event, ...]:
    """An event for each condition that turned True, ceased to be True, or has a new fault.

    What ceases for a reason that somebody wanted is Normal, such as AllReady that becomes Creating in a scale-up.
    Conditions that fail with the same words have one cause, and one event.
    """
    known = {condition.type: condition for condition in before}
    found: dict[tuple[str, str, str], Event] = {}
    for condition in now:
        event = _event(known.get(condition.type), condition)
        if event is not None:
            about = "" if event.type is EventType.WARNING else condition.type
            found.setdefault((about, condition.reason, condition.message), event)
    return tuple(found.values())


def _event(before: Condition | None, now: Condition) -> Event | None:
    held = before is not None and before.status is ConditionStatus.TRUE
    holds = now.status is ConditionStatus.TRUE
    same_reason = before is not None and before.reason == now.reason
    text = f"{now.type}: {now.message}" if now.message else str(now.type)
    if holds and before is not None and not held:
        return Event(EventType.NORMAL, _BY_WORD[now.reason], text)
    if not holds and (held or (now.reason in FAULTS and not same_reason)):
        kind = EventType.WARNING if now.reason in FAULTS | LOSSES else EventType.NORMAL
        return Event(kind, _BY_WORD[now.reason], text)
    return None
