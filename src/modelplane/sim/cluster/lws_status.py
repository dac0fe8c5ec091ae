"""The status of a LeaderWorkerSet: counts of groups, and the conditions Available, Progressing, UpdateInProgress.

A condition appears when it first becomes true. Available excludes the other two: when one side becomes true, the other
is turned to False and keeps its reason. Nothing else ever turns a condition to False.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.objects import Json, Manifest, int_at, items_at
from modelplane.api.timestamps import timestamp

AVAILABLE, PROGRESSING, UPDATING = "Available", "Progressing", "UpdateInProgress"
_WORDS = {
    AVAILABLE: ("AllGroupsReady", "every group is ready"),
    PROGRESSING: ("GroupsProgressing", "groups are being made ready"),
    UPDATING: ("GroupsUpdating", "groups are being replaced by those of a new revision"),
}
_EXCLUDED = {AVAILABLE: {PROGRESSING, UPDATING}, PROGRESSING: {AVAILABLE}, UPDATING: {AVAILABLE}}


@dataclass(frozen=True, slots=True)
class SeenGroup:
    number: int
    ready: bool
    updated: bool


def lws_status(item: Manifest, leaders: int, groups: Sequence[SeenGroup], now_s: float) -> Json:
    """`leaders` is the number of leader pods; a group is seen once its workers were asked for."""
    name = item["metadata"]["name"] if isinstance(item["metadata"], Mapping) else ""
    return {
        "replicas": leaders,
        "readyReplicas": sum(group.ready for group in groups),
        "updatedReplicas": sum(group.updated for group in groups),
        "observedGeneration": int_at(item, "metadata", "generation"),
        "hpaPodSelector": f"leaderworkerset.sigs.k8s.io/name={name},leaderworkerset.sigs.k8s.io/worker-index=0",
        "conditions": _merged(item, _true_conditions(item, groups), now_s),
    }


def _true_conditions(item: Manifest, groups: Sequence[SeenGroup]) -> list[str]:
    replicas = int_at(item, "spec", "replicas", default=1)
    partition = int_at(item, "spec", "rolloutStrategy", "rollingUpdateConfiguration", "partition")
    own = [group for group in groups if group.number < replicas]
    affected = [group for group in own if group.number >= partition]
    if not all(group.updated for group in affected):
        return [UPDATING, PROGRESSING]
    whole = sum(group.ready for group in own) == replicas and all(group.ready for group in affected)
    return [AVAILABLE] if whole else [PROGRESSING]


def _merged(item: Manifest, wanted: Sequence[str], now_s: float) -> list[Mapping[str, object]]:
    generation, now = int_at(item, "metadata", "generation"), timestamp(now_s)
    known = {str(entry.get("type")): entry for entry in items_at(item, "status", "conditions")}
    for kind in wanted:
        for other in _excluded(kind, known):
            turned = {"status": "False", "lastTransitionTime": now, "observedGeneration": generation}
            known[other] = {**known[other], **turned}
        before = known.get(kind, {})
        if (before.get("status"), before.get("observedGeneration")) != ("True", generation):
            known[kind] = _condition(kind, generation, now)
    return list(known.values())


def _excluded(kind: str, known: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    return (other for other in _EXCLUDED[kind] if known.get(other, {}).get("status") == "True")


def _condition(kind: str, generation: int, now: str) -> Json:
    reason, message = _WORDS[kind]
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
