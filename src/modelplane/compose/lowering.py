"""One internal form for every way of writing a deployment: engines with members.

unified          nodeSelector and workers      one engine, named main
disaggregated    decode and prefill            two engines, one a phase
engines          spelled out                   as they are
template         the shape of v0.3             as they are, with what stands around them

A worker that spans nodes is a Leader and its Workers; otherwise it is Standalone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from modelplane.api.models import (
    DeploymentEngine,
    DeploymentMember,
    LabelSelector,
    ModelDeploymentSpec,
    NodeSelector,
    PodTemplate,
    RequestedCapacity,
    Server,
    Toleration,
    Topology,
    Workers,
)
from modelplane.compose.engines import ENGINES, EngineName
from modelplane.compose.shapes import has_own_command, node_count, shape_fault
from modelplane.placement.hardware import CapacityRequests
from modelplane.placement.request import AttributeMatch, EngineRequest, MemberRequest, NodeDeviceRequest

MAIN = "main"
CACHE_PATH = "/mnt/models"
Role = Literal["Standalone", "Leader", "Worker"]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    role: Role
    nodes: int
    requests: tuple[NodeDeviceRequest, ...]
    template: PodTemplate
    matches: tuple[AttributeMatch, ...] = ()

    def fault(self) -> str | None:
        """What is named and not there."""
        known = {request.name for request in self.requests}
        missing = (name for match in self.matches for name in match.requests if name not in known)
        found = next(missing, None)
        return f"nodeSelector.matchAttributes: no request is named {found}" if found is not None else None


@dataclass(frozen=True, slots=True)
class EngineSpec:
    name: str
    members: tuple[MemberSpec, ...]
    copies: int
    phase: Literal["Prefill", "Decode"] | None
    type: EngineName = "Custom"
    coordination: Literal["Native", "Ray"] = "Native"
    topology: Topology | None = None
    server: Server | None = None

    def fault(self) -> str | None:
        """Why no cluster can run it: what is named and not there, or more devices than its pods request."""
        wrong = next((fault for member in self.members if (fault := member.fault())), None)
        if wrong is not None:
            return f"engine {self.name}: {wrong}"
        if not ENGINES[self.type].sized or self.topology is None or has_own_command(self.members[0].template):
            return None
        wrong = shape_fault(self.topology, sum(request.count for request in self.members[0].requests))
        return wrong and f"engine {self.name}: {wrong}"

    def request(self) -> EngineRequest:
        members = tuple(MemberRequest(member.nodes, member.requests, member.matches) for member in self.members)
        return EngineRequest(self.name, self.copies, members)


@dataclass(frozen=True, slots=True)
class LoweredCache:
    name: str
    mount_path: str | None
    """None: where artifacts of its kind are mounted."""
    preferred: bool
    """Whether replicas start without it where it is not staged."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A deployment, whichever way it was written."""

    engines: tuple[EngineSpec, ...]
    mode: Literal["Unified", "PrefillDecode"]
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster_selector: LabelSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    caches: tuple[LoweredCache, ...] = ()


def lower(spec: ModelDeploymentSpec) -> Lowered:
    if spec.template is not None:
        inner = spec.template.spec
        labels = spec.template.metadata.labels if spec.template.metadata else {}
        caches: tuple[LoweredCache, ...] = ()
        if inner.model_cache_ref is not None:
            caches = (LoweredCache(inner.model_cache_ref.name, CACHE_PATH, preferred=False),)
        mode = inner.serving.mode if inner.serving else "Unified"
        return Lowered(_spelled_out(inner.engines), mode, labels, inner.cluster_selector, inner.tolerations, caches)
    caches = tuple(LoweredCache(each.name, each.mount_path, each.policy == "Preferred") for each in spec.caches)
    engines, mode = _shape(spec)
    return Lowered(engines, mode, spec.labels, spec.cluster_selector, spec.tolerations, caches)


def _shape(spec: ModelDeploymentSpec) -> tuple[tuple[EngineSpec, ...], Literal["Unified", "PrefillDecode"]]:
    if spec.decode is not None and spec.prefill is not None:
        decode = _from_workers("decode", spec.decode.workers, spec.decode.node_selector, phase="Decode")
        prefill = _from_workers("prefill", spec.prefill.workers, spec.prefill.node_selector, phase="Prefill")
        return (decode, prefill), "PrefillDecode"
    if spec.workers is not None:
        return (_from_workers(MAIN, spec.workers, spec.node_selector),), "Unified"
    return _spelled_out(spec.engines), spec.serving.mode if spec.serving else "Unified"


def _from_workers(
    name: str, workers: Workers, selector: NodeSelector | None, phase: Literal["Prefill", "Decode"] | None = None
) -> EngineSpec:
    topology = workers.topology or Topology()
    nodes = node_count(topology)
    requests = _requests(selector)
    roles: tuple[tuple[Role, int], ...] = (("Standalone", 1),) if nodes == 1 else (("Leader", 1), ("Worker", nodes - 1))
    matches = _matches(selector)
    members = tuple(MemberSpec(role, count, requests, workers.template, matches) for role, count in roles)
    return EngineSpec(
        name, members, workers.count, phase, workers.engine, workers.coordination, topology, workers.server
    )


def _spelled_out(engines: tuple[DeploymentEngine, ...]) -> tuple[EngineSpec, ...]:
    return tuple(
        EngineSpec(engine.name, tuple(_member(member) for member in engine.members), engine.copies, engine.phase)
        for engine in engines
    )


def _member(member: DeploymentMember) -> MemberSpec:
    nodes = member.worker.nodes if member.worker else 1
    selector = member.node_selector
    return MemberSpec(member.role, nodes, _requests(selector), member.template, _matches(selector))


def _requests(selector: NodeSelector | None) -> tuple[NodeDeviceRequest, ...]:
    devices = selector.devices if selector else ()
    return tuple(
        NodeDeviceRequest(d.name, d.count, tuple(s.cel for s in d.selectors), capacity_requests(d.capacity))
        for d in devices
    )


def _matches(selector: NodeSelector | None) -> tuple[AttributeMatch, ...]:
    found = selector.match_attributes if selector else ()
    return tuple(AttributeMatch(each.attribute, each.requests) for each in found)


def capacity_requests(capacity: RequestedCapacity | None) -> CapacityRequests:
    return tuple(sorted(capacity.requests.items())) if capacity is not None else ()
