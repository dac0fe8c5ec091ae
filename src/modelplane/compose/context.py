"""One replica on its cluster: everything that rendering looks at, gathered once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from modelplane.api.errors import InputError
from modelplane.api.labels import DEPLOYMENT, REPLICA, REPLICA_HEADER
from modelplane.api.meta import ClusterName
from modelplane.api.models import Backend, InferenceCluster, ModelReplica, ReplicaEngine, ReplicaMember, Scheduling
from modelplane.api.names import MAX_LABEL, make_name
from modelplane.api.objects import Manifest, manifest
from modelplane.api.reasons import Reason
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.images import OwnImages

MAX_GANG_NAME = 39
"""Kueue makes labels of a LeaderWorkerSet's name with room for group and index; kept on every cluster, so that a
change of scheduler does not rename what runs."""

DEFAULT_GRACE_S = 120
_AFTER_DRAIN_S = 30
"""For an engine to end by itself once it has drained."""
ArtifactKind = Literal["Weights", "Tokenizer", "Bytes", "Adapter"]

TENANT_PREFIX = "mp-"
"""Of every namespace that is a tenant's on a workload cluster."""


class RenderError(InputError):
    """The replica cannot be rendered as it is written. What runs stays, and the condition says this."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ClusterRenderError(RenderError):
    """The cluster cannot run the replica, where another may. The message does not name the cluster: many share it."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A staged cache as the engine mounts it, read-only."""

    cache: str
    kind: ArtifactKind
    claim_name: str
    mount_path: str
    sub_path: str | None
    repository: str | None
    """Where the weights come from, under the name that clients may know them by."""
    image: str | None
    """The image that nodes pull and mount, instead of a claim."""
    staged: bool
    """Whether our loader filled it, and so the cache of the hub is in it where it has a repository."""
    key: str
    """The key of the source that is staged on it."""
    size_gib: int
    """As its cache states it. 0: it does not."""


@dataclass(frozen=True)
class Context:
    replica: ModelReplica
    cluster: InferenceCluster
    volumes: tuple[Volume, ...] = ()
    images: OwnImages = field(default_factory=OwnImages)
    """Of what runs beside the engines."""
    earlier_defaults: bool = False
    """Whether flags of engines that releases after 0.1 add by themselves are left out, as in pods that run without."""
    is_listed: bool = True
    """Whether requests may name it in a list of replicas. Those of the embedded Envoy never do."""
    group_env: tuple[Mapping[str, object], ...] = ()
    """How a pod of a gang finds the others, where it is not by the variables of a LeaderWorkerSet."""

    @cached_property
    def name(self) -> str:
        return self.replica.metadata.name

    @cached_property
    def namespace(self) -> str:
        return remote_namespace(self.replica.metadata.namespace)

    @cached_property
    def deployment(self) -> str:
        owner = self.replica.spec.deployment
        return owner.name if owner else self.replica.metadata.labels.get(DEPLOYMENT, self.name)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """On every object of the replica."""
        return {REPLICA: self.name, DEPLOYMENT: self.deployment}

    @cached_property
    def scheduling(self) -> Scheduling:
        return self.cluster.spec.scheduling

    @cached_property
    def priority(self) -> str:
        """The deployment's PriorityClass, or the cluster's default, or none."""
        return self.replica.spec.priority or self.scheduling.default_priority or ""

    @cached_property
    def disaggregated(self) -> bool:
        serving = self.replica.spec.serving
        return serving is not None and serving.mode == "PrefillDecode"

    @cached_property
    def weights(self) -> Volume | None:
        return next((volume for volume in self.volumes if volume.kind == "Weights"), None)

    @cached_property
    def adapters(self) -> tuple[Volume, ...]:
        return tuple(volume for volume in self.volumes if volume.kind == "Adapter")

    def workload_name(self, engine: ReplicaEngine) -> str:
        return workload_name(self.name, engine.name)

    def child_name(self, *parts: str) -> str:
        return make_name("-".join((self.name, *parts)), self.name, *parts, limit=MAX_LABEL)

    def object(
        self, api_version: str, kind: str, name: str, labels: Mapping[str, str] | None = None, **body: object
    ) -> dict[str, object]:
        """An object of the replica in the tenant's namespace. Our own labels win over `labels`."""
        merged = {**(labels or {}), **self.labels}
        return manifest(api_version, kind, name, namespace=self.namespace, labels=merged, **body)

    def remote(self, item: Manifest, ready_when: ReadyWhen = ReadyWhen.CREATED, *, shared: bool = False) -> Remote:
        return Remote(ClusterName(self.replica.spec.cluster_name), item, ready_when, shared)


def has_pools(backend: Backend) -> bool:
    """Whether the cluster's gateway knows InferencePools. One that names a picker says so by that."""
    return backend.routing == "InferencePool" or backend.images.picker is not None


def workload_name(replica: str, engine: str) -> str:
    """Of the workload that runs an engine of a replica. Names of its pods begin with it and a dash."""
    return make_name(f"{replica}-{engine}", replica, engine, limit=MAX_GANG_NAME)


def remote_namespace(namespace: str) -> str:
    """The tenant's namespace on workload clusters. Never `default`, and never another tenant's."""
    return make_name(f"{TENANT_PREFIX}{namespace}", namespace)


def replica_header(replica: ModelReplica) -> dict[str, object]:
    """What a request must carry to reach the replica. A slash is part of neither name, so no two replicas share it."""
    return {"type": "Exact", "name": REPLICA_HEADER, "value": _key(replica)}


def listed_header(replica: ModelReplica) -> dict[str, object]:
    """What a request carries that may go to one replica of each of several clusters: their keys, with commas between.

    A gateway gives all tries of a request the same headers, so only such a list leads to a replica at each of them.
    """
    value = f"(.*,)?{_key(replica).replace('.', '[.]')}(,.*)?"
    return {"type": "RegularExpression", "name": REPLICA_HEADER, "value": value}


def _key(replica: ModelReplica) -> str:
    return f"{replica.metadata.namespace}/{replica.metadata.name}"


def is_gang(engine: ReplicaEngine) -> bool:
    """Whether one copy of the engine spans several pods."""
    return engine.members[0].role != "Standalone"


def head_member(engine: ReplicaEngine) -> ReplicaMember:
    """The member that answers requests, in whichever order they were written."""
    return next((member for member in engine.members if member.role != "Worker"), engine.members[0])


def group_size(engine: ReplicaEngine) -> int:
    """Pods of one copy of the engine."""
    return sum(member.nodes for member in engine.members)


def grace_seconds(engine: ReplicaEngine, member: ReplicaMember) -> int:
    """How long a pod may take to stop: as it is written, and no less than its engine drains."""
    given = member.template.spec.termination_grace_period_seconds
    drain = (engine.server and engine.server.drain_seconds) or 0
    return max(DEFAULT_GRACE_S if given is None else given, drain + _AFTER_DRAIN_S if drain else 0)
