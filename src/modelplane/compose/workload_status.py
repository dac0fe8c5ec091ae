"""The status of a workload on its cluster."""

import hashlib
from dataclasses import replace

import msgspec

from modelplane.api.labels import RENDERED
from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.compose.contract import Remote

_HASH_LENGTH = 8
_REFUSED = {"ReplicaFailure": "True"}
"""Conditions that mean that the cluster rejects the pods."""
_COUNTED = frozenset({"Deployment", "LeaderWorkerSet"})
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


def failure(item: Manifest) -> str | None:
    """The workload's message when the cluster rejects its pods or its progress deadline passed."""
    conditions = value_at(item, "status", "conditions")
    for condition in conditions if isinstance(conditions, list | tuple) else ():
        kind, status, reason = (text_at(condition, field) for field in ("type", "status", "reason"))
        gave_up = kind == "Progressing" and status == "False" and reason == "ProgressDeadlineExceeded"
        if _REFUSED.get(kind) == status or gave_up:
            return text_at(condition, "message") or reason
    return None


def progress(item: Manifest) -> str:
    """The message of its Ready condition, else its count of ready pods."""
    wanted = value_at(item, "spec", "replicas")
    ready = value_at(item, "status", "readyReplicas") or 0
    name = text_at(item, "metadata", "name")
    kind = text_at(item, "kind")
    conditions = value_at(item, "status", "conditions")
    for condition in conditions if isinstance(conditions, list | tuple) else ():
        if text_at(condition, "type") == "Ready" and text_at(condition, "message"):
            return f"{kind} {name}: {text_at(condition, 'message')}"
    return f"{kind} {name}: {ready} of {wanted} ready"
