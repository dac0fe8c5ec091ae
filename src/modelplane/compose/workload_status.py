"""The status of a workload on its cluster."""

import hashlib
from dataclasses import replace

import msgspec

from modelplane.api.labels import RENDERED
from modelplane.api.meta import Timestamp
from modelplane.api.objects import Manifest, items_at, text_at, value_at
from modelplane.compose.contract import Remote

_HASH_LENGTH = 8
_COUNTED = frozenset({"Deployment", "LeaderWorkerSet", "PodCliqueSet"})
"""Kinds whose status counts updated pods."""


def rolled_out(item: Manifest) -> bool:
    """Whether every pod has the newest template. Kinds that do not count updated pods always are."""
    generation, seen = value_at(item, "metadata", "generation"), value_at(item, "status", "observedGeneration")
    if generation is not None and seen is not None and generation != seen:
        return False
    wanted = value_at(item, "spec", "replicas")
    updated, current = value_at(item, "status", "updatedReplicas"), value_at(item, "status", "replicas")
    if updated is None and current is None and text_at(item, "kind") not in _COUNTED:
        return True
    # A count of zero is left out of a status.
    return (updated or 0) == (current or 0) == wanted


def has_status(item: Manifest) -> bool:
    """Whether its controller wrote a status: conditions, or counts of pods."""
    return any(value_at(item, "status", field) for field in ("conditions", "replicas", "updatedReplicas"))


def stamped(target: Remote) -> Remote:
    """The workload annotated with a hash of its spec: API servers default the spec and keep the annotation."""
    item = dict(target.manifest)
    digest = hashlib.sha256(msgspec.json.encode(item.get("spec"))).hexdigest()[:_HASH_LENGTH]
    metadata = item.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    metadata["annotations"] = {**metadata.get("annotations", {}), RENDERED: digest}
    return replace(target, manifest={**item, "metadata": metadata})


def same_stamp(wanted: Manifest, seen: Manifest) -> bool:
    path = ("metadata", "annotations", RENDERED)
    return value_at(wanted, *path) == value_at(seen, *path)


def mentions(item: Manifest, name: str) -> bool:
    return name.encode() in msgspec.json.encode(item)


def rejection(item: Manifest) -> tuple[str, Timestamp | None] | None:
    """The message of a workload whose pods the cluster rejects, and since when."""
    return _message(item, "ReplicaFailure", "True")


def gave_up(item: Manifest) -> tuple[str, Timestamp | None] | None:
    """The message of a workload whose progress deadline passed, and since when."""
    return _message(item, "Progressing", "False", "ProgressDeadlineExceeded")


def _message(item: Manifest, kind: str, status: str, reason: str = "") -> tuple[str, Timestamp | None] | None:
    for condition in items_at(item, "status", "conditions"):
        found = tuple(text_at(condition, field) for field in ("type", "status", "reason"))
        if found[:2] == (kind, status) and reason in {"", found[2]}:
            since = text_at(condition, "lastTransitionTime")
            return text_at(condition, "message") or found[2], Timestamp(since) if since else None
    return None


def progress(item: Manifest) -> str:
    """The message of its Ready condition, else its count of ready pods."""
    wanted = value_at(item, "spec", "replicas")
    ready = value_at(item, "status", "readyReplicas") or value_at(item, "status", "availableReplicas") or 0
    name = text_at(item, "metadata", "name")
    kind = text_at(item, "kind")
    for condition in items_at(item, "status", "conditions"):
        if text_at(condition, "type") == "Ready" and text_at(condition, "message"):
            return f"{kind} {name}: {text_at(condition, 'message')}"
    return f"{kind} {name}: {ready} of {wanted} ready"
