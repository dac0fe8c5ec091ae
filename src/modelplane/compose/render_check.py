"""What a cluster can run, as placement asks: the replica that would be placed there is rendered, and the answer kept.

Rendering depends on little of a cluster: its source, its backend and what it wants on pods. Clusters that agree on
these share one description, so a fleet of thousands is judged as often as it has different ones. A description is a
trimmed InferenceCluster: it says that an image is given and not which, and of its name only how long it is.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import msgspec

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName, ObjectMeta, PoolName
from modelplane.api.models import (
    Backend,
    ClusterSource,
    Images,
    InferenceCluster,
    InferenceClusterSpec,
    ModelCache,
    ModelDeployment,
    ModelReplica,
    Scheduling,
)
from modelplane.compose.context import Context, RenderError
from modelplane.compose.gang import scheduling_fault
from modelplane.compose.images import RELEASE_IMAGES
from modelplane.compose.lowering import Lowered
from modelplane.compose.rendering import can_render
from modelplane.compose.replica_spec import make_replica
from modelplane.compose.volumes import volumes_of
from modelplane.placement.values import PlacedReplica, PoolAssignment

_MAX_DESCRIPTIONS = 16_384
_MAX_ANSWERS = 4_096
_SOME = "some"
_Stack = Literal["Standard", "Dynamo"]
_encode = msgspec.json.Encoder(order="sorted").encode
_encode_fast = msgspec.json.Encoder().encode


def describe_rendering(cluster: InferenceCluster) -> bytes:
    """All that rendering reads of a cluster, for `RenderCheck`."""
    spec = cluster.spec
    return _describe(_encode_fast((spec.stack, spec.scheduling, spec.backend)), _shown_name(cluster))


def _shown_name(cluster: InferenceCluster) -> str:
    """Labels of pods may have the name in their values, which must not become too long."""
    labels = cluster.spec.scheduling.default_labels
    named = any("Cluster" in text for text in labels.values())
    return "x" * len(cluster.metadata.name) if named else _SOME


@lru_cache(maxsize=_MAX_DESCRIPTIONS)
def _describe(parts: bytes, name: str) -> bytes:
    """Cached by the parts as they are written, for most clusters of a fleet are written alike."""
    stack, scheduling, backend = msgspec.json.decode(parts, type=tuple[_Stack, Scheduling, Backend])
    trimmed = InferenceCluster(
        metadata=ObjectMeta(name=name),
        spec=InferenceClusterSpec(
            cluster=ClusterSource(source="Existing"),
            stack=stack,
            scheduling=_trimmed_scheduling(scheduling),
            backend=_trimmed_backend(backend),
        ),
    )
    return _shared(_encode(trimmed))


@lru_cache(maxsize=_MAX_DESCRIPTIONS)
def _shared(description: bytes) -> bytes:
    """Equal descriptions as one value, which is quick to compare."""
    return description


def _trimmed_backend(backend: Backend) -> Backend:
    images = backend.images
    if images == Images():
        return backend
    given = Images(picker=images.picker and _SOME, routing_sidecar=images.routing_sidecar and _SOME)
    return msgspec.structs.replace(backend, images=given)


def _trimmed_scheduling(scheduling: Scheduling) -> Scheduling:
    """Of a queue it matters that there is one, and its name only where that is invalid."""
    queue = scheduling.queue if scheduling_fault(scheduling) is not None else scheduling.queue and _SOME
    return msgspec.structs.replace(scheduling, queue=queue, scheduler_name=None)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The replica that a deployment asks for, compared by a digest."""

    digest: bytes
    replica: ModelReplica = field(compare=False)


@dataclass(frozen=True)
class RenderCheck:
    """Whether clusters can run the replicas of a deployment."""

    deployment: ModelDeployment
    lowered: Lowered

    def refuse(self, rendering: bytes, artifacts: tuple[str, ...]) -> str | None:
        """Why clusters of this description cannot. `artifacts` are the kinds of the caches, in their order."""
        if self._shape_fault is not None:
            return self._shape_fault
        return _refuse(self._shape, rendering, artifacts) if rendering else None

    @cached_property
    def _shape_fault(self) -> str | None:
        return next((wrong for engine in self.lowered.engines if (wrong := engine.fault())), None)

    @cached_property
    def _shape(self) -> _Shape:
        assignments = tuple(PoolAssignment(engine.name, PoolName(_SOME)) for engine in self.lowered.engines)
        placed = PlacedReplica(
            deployment=self.deployment.metadata.key, cluster=ClusterName(_SOME), index=0, assignments=assignments
        )
        replica = make_replica(self.deployment, self.lowered, placed)
        return _Shape(hashlib.sha256(_encode(replica)).digest(), replica)


@lru_cache(maxsize=_MAX_ANSWERS)
def _refuse(shape: _Shape, rendering: bytes, artifacts: tuple[str, ...]) -> str | None:
    cluster = msgspec.json.decode(rendering, type=InferenceCluster)
    replica = shape.replica
    spec = msgspec.structs.replace(replica.spec, cluster_name=cluster.metadata.name)
    # Of a cache that the request does not name nothing is known: it is not mounted.
    caches = {mount.name: _cache(kind) for mount, kind in zip(spec.caches, artifacts, strict=False)}
    mounts = tuple(mount for mount in spec.caches if mount.name in caches)
    try:
        volumes = volumes_of(mounts, caches)
    except RenderError as error:
        return str(error)
    placed = msgspec.structs.replace(replica, spec=spec)
    return can_render(Context(placed, cluster, volumes, RELEASE_IMAGES.for_cluster(cluster)))


def _cache(kind: str) -> ModelCache:
    return decode(ModelCache, {"metadata": {}, "spec": {"artifact": {"kind": kind}}})
