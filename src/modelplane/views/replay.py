"""Snapshots of what the scheduler looked at, and the proof that it decides the same again.

A snapshot holds the inputs and, for each deployment, what was decided on them with a digest over all of it. Replaying
decides again and compares digests, so that a decision can be looked into later, elsewhere, bit for bit.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.models import ModelDeployment
from modelplane.api.objects import API_VERSION, Manifest
from modelplane.framework.registry import Registry
from modelplane.placement.request import PlacementRequest
from modelplane.placement.schedule import Schedule, schedule
from modelplane.placement.snapshot import Fleet
from modelplane.views.inputs import SNAPSHOT_KIND, FleetManifests, gather, key_text, recorded_decisions
from modelplane.views.requests import refused_clusters, request_of
from modelplane.views.shapes import RecordedDecision, ReplayedDecision

_META = ("name", "namespace", "uid", "generation", "labels", "creationTimestamp", "deletionTimestamp")


def snapshot_document(inputs: FleetManifests) -> dict[str, object]:
    """The inputs and the decisions on them, as one document."""
    completed = inputs.completed()
    return {
        "apiVersion": API_VERSION,
        "kind": SNAPSHOT_KIND,
        "now": inputs.now,
        **({"profile": inputs.profile_document} if inputs.profile_document is not None else {}),
        "classes": [_trimmed(item) for item in completed.classes],
        "clusters": [_trimmed(item) for item in completed.clusters],
        "replicas": [_trimmed(item) for item in completed.replicas],
        "caches": [_trimmed(item) for item in completed.caches],
        "deployments": [_trimmed(item) for item in completed.deployments],
        "decisions": [msgspec.to_builtins(decision) for decision in decide(completed)],
    }


def decide(inputs: FleetManifests) -> tuple[RecordedDecision, ...]:
    """What each deployment would be given, each on the fleet as it is, by itself."""
    fleet = inputs.fleet()
    return tuple(
        _decision(request_of(inputs, decode(ModelDeployment, item), fleet), fleet, inputs)
        for item in inputs.deployments
    )


def replay(document: Mapping[str, object], registry: Registry | None = None) -> tuple[ReplayedDecision, ...]:
    """Decides again. The registry has the plugins that the snapshot's profile may name."""
    if document.get("kind") != SNAPSHOT_KIND:
        raise InputError(f"this is a {document.get('kind')}, not a {SNAPSHOT_KIND}")
    known = {decision.deployment: decision for decision in recorded_decisions(document)}
    inputs = gather([document])
    if inputs.profile_document is not None:
        inputs = inputs.placed_by(inputs.profile_document, registry)
    decided = decide(inputs)
    missing = sorted(known.keys() - {decision.deployment for decision in decided})
    if missing:
        raise InputError(f"{SNAPSHOT_KIND}: there is a decision but no deployment for {', '.join(missing)}")
    return tuple(
        ReplayedDecision(
            deployment=decision.deployment,
            same=known[decision.deployment].digest == decision.digest,
            recorded=known[decision.deployment],
            decided=decision,
        )
        for decision in decided
        if decision.deployment in known
    )


def _decision(request: PlacementRequest, fleet: Fleet, inputs: FleetManifests) -> RecordedDecision:
    decided = schedule(request, fleet, inputs.now, profile=inputs.profile)
    return RecordedDecision(
        deployment=key_text(request.deployment),
        digest=digest_of(decided),
        placements=tuple(
            f"{placement.replica.cluster}/{'+'.join(assignment.pool for assignment in placement.replica.assignments)}"
            f"#{placement.replica.index} {placement.decision.value}"
            for placement in decided.placements
        ),
        pending=decided.pending,
        refused=refused_clusters(request, fleet),
    )


def digest_of(decided: Schedule) -> str:
    parts = (
        decided.placements,
        decided.dropped,
        decided.pending,
        decided.preemption,
        decided.requeue_after_s,
        decided.trace.candidates(),
    )
    return "sha256:" + hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def _trimmed(manifest: Manifest) -> dict[str, object]:
    """The manifest without what only a store needs, and without what pods are told: that is nobody else's business."""
    metadata = manifest.get("metadata")
    kept = {name: metadata[name] for name in _META if name in metadata} if isinstance(metadata, Mapping) else {}
    rest = {name: _without_pods(value) for name, value in manifest.items() if name != "metadata"}
    return {"apiVersion": rest.pop("apiVersion", API_VERSION), "kind": rest.pop("kind", ""), "metadata": kept, **rest}


def _without_pods(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_without_pods(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    containers = value.get("containers")
    if isinstance(containers, list | tuple):
        named = [container for container in containers if isinstance(container, Mapping)]
        return {"containers": [{"name": found.get("name"), "image": found.get("image")} for found in named]}
    return {name: _without_pods(item) for name, item in value.items() if name != "annotations"}
