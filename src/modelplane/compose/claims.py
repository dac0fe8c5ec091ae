"""Devices: one claim template for each kind of pod that claims something.

A template cannot be changed, and changing it would not touch pods that run. Its name therefore ends in a hash of what
it asks for: other requests make another template, another template makes other pods, and the workload rolls.
"""

import hashlib

import msgspec

from modelplane.api.models import DeviceRequest, MatchAttribute, ReplicaEngine, ReplicaMember
from modelplane.api.reasons import Reason
from modelplane.compose.context import Context, RenderError
from modelplane.compose.contract import Remote
from modelplane.compose.device_roots import PCIE_ROOT

CLAIM = "devices"
"""Name of the claim inside a pod."""
MAX_DEVICES = 32
"""Kubernetes accepts claims for more and never allocates them."""
_HASH_LENGTH = 8
KEY_PREFIX = "claims-"


def template_name(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> str:
    return context.child_name(engine.name, member.role.lower(), _digest(member))


def claim_templates(context: Context) -> dict[str, Remote]:
    return {
        _key(engine, member): context.remote(_template(context, engine, member))
        for engine in context.replica.spec.engines
        for member in engine.members
        if member.device_requests
    }


def _key(engine: ReplicaEngine, member: ReplicaMember) -> str:
    return f"{KEY_PREFIX}{engine.name}-{member.role.lower()}-{_digest(member)}"


def _template(context: Context, engine: ReplicaEngine, member: ReplicaMember) -> dict[str, object]:
    total = sum(wanted.count for wanted in member.device_requests)
    if total > MAX_DEVICES:
        message = f"engine {engine.name}: {total} devices for one pod, and a claim holds {MAX_DEVICES} at most"
        raise RenderError(Reason.INVALID, message)
    requests = [_request(wanted) for wanted in member.device_requests]
    devices: dict[str, object] = {"requests": requests}
    matches = _matches(member)
    if matches:
        devices["constraints"] = [_constraint(match) for match in matches]
    spec = {"metadata": {"labels": dict(context.labels)}, "spec": {"devices": devices}}
    name = template_name(context, engine, member)
    return context.object("resource.k8s.io/v1", "ResourceClaimTemplate", name, spec=spec)


def _request(wanted: DeviceRequest) -> dict[str, object]:
    exactly: dict[str, object] = {
        "deviceClassName": wanted.device_class_name,
        "allocationMode": "ExactCount",
        "count": wanted.count,
    }
    if wanted.selectors:
        exactly["selectors"] = [{"cel": {"expression": selector.cel}} for selector in wanted.selectors]
    if wanted.capacity is not None and wanted.capacity.requests:
        exactly["capacity"] = {"requests": dict(wanted.capacity.requests)}
    return {"name": wanted.name, "exactly": exactly}


def _matches(member: ReplicaMember) -> tuple[MatchAttribute, ...]:
    root = (MatchAttribute(attribute=PCIE_ROOT, requests=member.root_requests),) if member.root_requests else ()
    return (*member.match_attributes, *root)


def _constraint(match: MatchAttribute) -> dict[str, object]:
    named = {"requests": list(match.requests)} if match.requests else {}
    return {**named, "matchAttribute": match.attribute}


def _digest(member: ReplicaMember) -> str:
    matches = _matches(member)
    wanted = (member.device_requests, matches) if matches else member.device_requests
    return hashlib.sha256(msgspec.json.encode(wanted)).hexdigest()[:_HASH_LENGTH]
