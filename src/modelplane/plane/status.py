"""The status of a composite from a compose result: conditions with generation and transition time."""

from collections.abc import Iterable, Mapping

import msgspec

from modelplane.api.codec import encode
from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp
from modelplane.compose.contract import ComposeResult

FACTS = ("traffic",)
"""Fields of a status that are measured. Composers read them and do not write them."""


def conditions_of(result: ComposeResult, *, generation: object) -> tuple[Condition, ...]:
    """The composer's conditions and READY: its own, or derived from the readiness of the composed objects."""
    observed = generation if isinstance(generation, int) else 0
    conditions = (*result.conditions, result.ready or _derived(result))
    return tuple(msgspec.structs.replace(condition, observed_generation=observed) for condition in conditions)


def _derived(result: ComposeResult) -> Condition:
    waiting = sorted(key for key, desired in result.desired.items() if not desired.ready)
    if waiting:
        return fails(ConditionType.READY, Reason.CREATING, f"not ready: {', '.join(waiting)}")
    return holds(ConditionType.READY, Reason.AVAILABLE)


def merged_status(
    before: object, status: msgspec.Struct | None, conditions: Iterable[Condition], now: float
) -> dict[str, object]:
    """The new status. A result without one keeps the known fields; an unchanged condition keeps its transition time."""
    previous = before if isinstance(before, Mapping) else {}
    known = {c.type: c for c in msgspec.convert(previous.get("conditions", []), list[Condition])}
    for condition in conditions:
        known[condition.type] = _timed(condition, known.get(condition.type), now)
    fields = dict(previous) if status is None else {**_facts(previous), **encode(status)}
    fields["conditions"] = [encode(condition) for condition in known.values()]
    return fields


def _facts(previous: Mapping[str, object]) -> dict[str, object]:
    """Fields that others than composers write."""
    return {name: previous[name] for name in FACTS if name in previous}


def _timed(condition: Condition, before: Condition | None, now: float) -> Condition:
    same = before is not None and before.status == condition.status
    since = before.last_transition_time if same and before is not None else timestamp(now)
    return msgspec.structs.replace(condition, last_transition_time=since, status=ConditionStatus(condition.status))
