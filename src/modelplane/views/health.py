"""Whether an object is ready, and why not, in the words that it has in its own status.

Every view takes them from here, so a page, `status`, `plan` and `explain` say the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType
from modelplane.api.errors import InvalidObject
from modelplane.api.meta import ObjectMeta
from modelplane.api.models import InferenceCluster, ModelDeploymentStatus, ModelReplicaStatus
from modelplane.api.reasons import Reason
from modelplane.views.states import DELETING, NOT_READY, READY, UNKNOWN

_FINE = frozenset({Reason.SERVING.value, Reason.ALL_READY.value, Reason.SCALED_TO_ZERO.value})

_DOUBTFUL = frozenset({Reason.OUTBOUND_PARTLY_REFUSED, Reason.PROVIDER_NOT_REACHED})
"""Reasons that an object which is ready has for requests that may fail."""


@dataclass(frozen=True, slots=True)
class ObjectHealth:
    """Whether an object is ready, and why not in its own words."""

    state: str
    why: str


def unreadable(error: InvalidObject) -> ObjectHealth:
    """Of an object that cannot be read: the error names the field."""
    return ObjectHealth(UNKNOWN, f"it cannot be read: {error}")


def object_health(metadata: ObjectMeta, conditions: Iterable[Condition]) -> ObjectHealth:
    """An object that is being deleted says what that waits for."""
    known = {condition.type: condition for condition in conditions}
    ready, held = known.get(ConditionType.READY), known.get(ConditionType.DELETABLE)
    if metadata.deletion_timestamp is not None or (held is not None and held.status is ConditionStatus.FALSE):
        waits = held or (ready if ready is not None and ready.reason == Reason.DELETING else None)
        return ObjectHealth(DELETING, _words(waits.reason, waits.message) if waits is not None else "")
    if ready is None:
        return ObjectHealth(UNKNOWN, "nothing was decided yet")
    state = {"True": READY, "False": NOT_READY}.get(ready.status, UNKNOWN)
    doubtful = next((each for each in known.values() if each.reason in _DOUBTFUL), None)
    said = ready if state != READY else doubtful
    return ObjectHealth(state, _words(said.reason, said.message) if said is not None else "")


def reported_health(metadata: ObjectMeta, status: ModelReplicaStatus | ModelDeploymentStatus) -> ObjectHealth:
    """Of a kind whose status has a reason of its own: Crossplane's Ready condition says no more than Creating."""
    health = object_health(metadata, status.conditions)
    if health.state in {READY, DELETING} or not status.reason or status.reason in _FINE:
        return health
    return ObjectHealth(health.state, _words(status.reason, _since(status)))


def cluster_health(item: InferenceCluster) -> ObjectHealth:
    """A cluster that is ready and drained says how far the drain is."""
    health = object_health(item.metadata, item.status.conditions)
    drained = next((condition for condition in item.status.conditions if condition.type == ConditionType.DRAINED), None)
    if health.why or item.status.drain is None or drained is None:
        return health
    return ObjectHealth(health.state, _words(drained.reason, drained.message))


def state_since(metadata: ObjectMeta, conditions: Iterable[Condition]) -> str:
    """When an object came into the state that its health says; empty where that is not known."""
    known = {condition.type: condition for condition in conditions}
    ready, held = known.get(ConditionType.READY), known.get(ConditionType.DELETABLE)
    decisive = held if held is not None and held.status is ConditionStatus.FALSE else ready
    return metadata.deletion_timestamp or (decisive.last_transition_time if decisive is not None else None) or ""


def _since(status: ModelReplicaStatus | ModelDeploymentStatus) -> str:
    since = status.since if isinstance(status, ModelReplicaStatus) else None
    return f"{status.message or ''}{f' (since {since})' if since else ''}".strip()


def _words(reason: str, message: str) -> str:
    return f"{reason}: {message}".rstrip(": ")
