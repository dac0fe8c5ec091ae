"""The status of a Deployment: counts of its ReplicaSets, and the conditions Available, Progressing and ReplicaFailure.

Progress is any growth of updated, ready or available pods, or any shrinking of old ones. A rollout without progress for
progressDeadlineSeconds has failed to progress; it stays so until there is progress again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.objects import Json, Manifest, int_at, items_at, name_of, value_at
from modelplane.api.timestamps import timestamp
from modelplane.sim.cluster.objects import condition_of, seconds_of

COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
CREATED = "NewReplicaSetCreated"
FOUND = "FoundNewReplicaSet"
UPDATED = "ReplicaSetUpdated"
FAILURE = "ReplicaFailure"
_DEADLINE_S = 600


def replicas_of(item: Manifest) -> int:
    return int_at(item, "spec", "replicas", default=1)


@dataclass(frozen=True, slots=True)
class RolloutState:
    """What there is to report: the ReplicaSets, the one of the template, and whether this pass made it."""

    sets: Sequence[Manifest]
    new: Manifest | None
    least_available: int
    created: bool = False


def deployment_status(deployment: Manifest, seen: RolloutState, now_s: float) -> Json:
    """The status that the Deployment should have."""
    counts = _counts(deployment, seen)
    conditions = {str(entry.get("type")): entry for entry in items_at(deployment, "status", "conditions")}
    available = _available(held=counts["availableReplicas"] >= seen.least_available)
    for entry in (_changed(conditions.get("Available"), available, now_s), _progress(deployment, counts, seen, now_s)):
        if entry is not None:
            conditions[str(entry["type"])] = entry
    conditions.pop(FAILURE, None)
    if failed := _failure(seen):
        conditions[FAILURE] = _changed(condition_of(deployment, FAILURE) or None, failed, now_s)
    shown = {field: count for field, count in counts.items() if count or field == "terminatingReplicas"}
    return {**shown, "conditions": list(conditions.values())}


def _failure(seen: RolloutState) -> Json | None:
    """Why pods of the newest ReplicaSet, or else of an older one, cannot be created."""
    sets = [*([seen.new] if seen.new is not None else []), *seen.sets]
    found = (condition_of(item, FAILURE) for item in sets)
    failed = next((condition for condition in found if condition.get("status") == "True"), None)
    kept = ("type", "status", "reason", "message")
    return None if failed is None else {field: failed.get(field) for field in kept}


def progress_due_s(deployment: Manifest) -> float | None:
    """When the progress deadline ends, in seconds since the epoch; None without a rollout."""
    progressing = condition_of(deployment, "Progressing")
    if not progressing or progressing.get("reason") in {COMPLETE, TIMED_OUT}:
        return None
    return seconds_of(str(progressing.get("lastUpdateTime"))) + _deadline_s(deployment) + 1


def _counts(deployment: Manifest, seen: RolloutState) -> dict[str, int]:
    def total(field: str) -> int:
        return sum(int_at(item, "status", field) for item in seen.sets)

    available = total("availableReplicas")
    return {
        "observedGeneration": int_at(deployment, "metadata", "generation"),
        "replicas": total("replicas"),
        "updatedReplicas": int_at(seen.new, "status", "replicas") if seen.new is not None else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(replicas_of(item) for item in seen.sets) - available),
        "terminatingReplicas": total("terminatingReplicas"),
    }


def _available(*, held: bool) -> Json:
    if held:
        message = "Deployment has minimum availability."
        return {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": message}
    message = "Deployment does not have minimum availability."
    return {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": message}


def _progress(
    deployment: Manifest, counts: Mapping[str, int], seen: RolloutState, now_s: float
) -> Mapping[str, object] | None:
    known = _started(deployment, seen, now_s)
    name = f'ReplicaSet "{name_of(seen.new)}"' if seen.new is not None else f'Deployment "{name_of(deployment)}"'
    if known is None or (counts["replicas"] == counts["updatedReplicas"] and known.get("reason") == COMPLETE):
        return known
    if _is_complete(deployment, counts):
        return _changed(known, _progressing(COMPLETE, f"{name} has successfully progressed."), now_s)
    if _made_progress(deployment, counts):
        return _changed({**known, "reason": ""}, _progressing(UPDATED, f"{name} is progressing."), now_s)
    if _is_timed_out(deployment, known, now_s):
        return _changed(known, _progressing(TIMED_OUT, f"{name} has timed out progressing.", status="False"), now_s)
    return known


def _started(deployment: Manifest, seen: RolloutState, now_s: float) -> Mapping[str, object] | None:
    """The condition before progress is judged."""
    known = condition_of(deployment, "Progressing") or None
    if seen.new is None:
        return known
    if seen.created:
        return _changed(known, _progressing(CREATED, f'Created new replica set "{name_of(seen.new)}"'), now_s)
    return known or _changed(None, _progressing(FOUND, f'Found new replica set "{name_of(seen.new)}"'), now_s)


def _progressing(reason: str, message: str, *, status: str = "True") -> Json:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def _changed(known: Mapping[str, object] | None, wanted: Json, now_s: float) -> Mapping[str, object]:
    """The known condition while status and reason are the same; else the wanted one with its times."""
    if known is not None and (known.get("status"), known.get("reason")) == (wanted["status"], wanted["reason"]):
        return known
    same = known is not None and known.get("status") == wanted["status"]
    now = timestamp(now_s)
    transition = known["lastTransitionTime"] if known is not None and same else now
    return {**wanted, "lastUpdateTime": now, "lastTransitionTime": transition}


def _is_complete(deployment: Manifest, counts: Mapping[str, int]) -> bool:
    wanted = replicas_of(deployment)
    return counts["updatedReplicas"] == wanted == counts["replicas"] == counts["availableReplicas"]


def _made_progress(deployment: Manifest, counts: Mapping[str, int]) -> bool:
    then = {field: int_at(deployment, "status", field) for field in counts}
    grew = any(counts[field] > then[field] for field in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return grew or counts["replicas"] - counts["updatedReplicas"] < then["replicas"] - then["updatedReplicas"]


def _is_timed_out(deployment: Manifest, known: Mapping[str, object], now_s: float) -> bool:
    if known.get("reason") == COMPLETE:
        return False
    since = seconds_of(str(known.get("lastUpdateTime")))
    return known.get("reason") == TIMED_OUT or since + _deadline_s(deployment) < now_s


def _deadline_s(deployment: Manifest) -> int:
    found = value_at(deployment, "spec", "progressDeadlineSeconds")
    return found if isinstance(found, int) else _DEADLINE_S
