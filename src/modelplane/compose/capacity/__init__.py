"""The capacity of an InferenceCluster as its API shows it. The one entry: the modules in here are private to it.

The queues of its scheduler become `status.queues`. Its Nodes, ResourceSlices and ResourceClaims refine
`status.gpuPools`. Until they are read, the declared capacity and the last status count.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster, Queue, Scheduling
from modelplane.api.objects import Manifest, text_at
from modelplane.api.queues import MAX_QUEUES, is_per_namespace, queue_name, queue_scheduler, queue_template
from modelplane.compose.capacity import kai, kueue, volcano
from modelplane.compose.capacity.bound import bound_pods, faulty_replicas
from modelplane.compose.capacity.devices import CLAIMS, NODES, SLICES, ObservedPool, held_by_replicas, observed_pools
from modelplane.compose.capacity.refine import refined, requeue_after_s
from modelplane.compose.contract import ComposeRequest, Requirement
from modelplane.compose.kubernetes_versions import minor_version
from modelplane.compose.pod_defaults import kueue_api

__all__ = [
    "READERS",
    "ObservedPool",
    "ReplicaDevices",
    "bound_pods",
    "faulty_replicas",
    "kubernetes_version",
    "pools_of",
    "queues_of",
    "refined",
    "requeue_after_s",
    "requirements",
]

_NODES, _SLICES, _CLAIMS, _QUEUES = "observed-nodes", "observed-slices", "observed-claims", "observed-queues"
_LOCAL_QUEUES = "observed-local-queues"


@dataclass(frozen=True, slots=True)
class QueueReader:
    api_version: Callable[[Scheduling], str]
    kind: str
    read: Callable[[Manifest, Scheduling], Queue]
    claimed: Callable[[Manifest], int] | None = None
    """Of the devices that the queue counts as used, those that ResourceClaims hold. None: it does not distinguish."""


READERS: Mapping[str, QueueReader] = MappingProxyType(
    {
        "KAI": QueueReader(
            lambda _: kai.API_VERSION,
            kai.KIND,
            lambda item, scheduling: kai.read(item, preemptible=kai.is_preemptible(scheduling)),
        ),
        "Kueue": QueueReader(kueue_api, kueue.KIND, lambda item, _: kueue.read(item)),
        "Volcano": QueueReader(
            lambda _: volcano.API_VERSION, volcano.KIND, lambda item, _: volcano.read(item), volcano.claimed
        ),
    }
)
"""By `spec.scheduling.type` of an InferenceCluster."""


def requirements(cluster: InferenceCluster) -> dict[str, Requirement]:
    name = ClusterName(cluster.metadata.name)
    wanted = {
        key: Requirement(api_version, kind, cluster=name)
        for key, (api_version, kind) in ((_NODES, NODES), (_SLICES, SLICES), (_CLAIMS, CLAIMS))
    }
    reader = READERS.get(queue_scheduler(cluster.spec.scheduling))
    if reader is not None:
        wanted[_QUEUES] = Requirement(reader.api_version(cluster.spec.scheduling), reader.kind, cluster=name)
    if cluster.spec.scheduling.type_ == "Kueue":
        wanted[_LOCAL_QUEUES] = Requirement(kueue_api(cluster.spec.scheduling), kueue.LOCAL_KIND, cluster=name)
    return wanted


@dataclass(frozen=True, slots=True)
class ReplicaDevices:
    """The devices of a ModelReplica on the cluster."""

    namespace: str
    devices: int


def queues_of(
    request: ComposeRequest[InferenceCluster], held: Mapping[str, ReplicaDevices] | None = None
) -> tuple[Queue, ...]:
    """The queues that replicas submit to, then the others by name. While they cannot be read, those of the last status.

    `held` has the ModelReplicas on the cluster by name.
    """
    cluster = request.resource
    reader = READERS.get(queue_scheduler(cluster.spec.scheduling))
    found = request.fetched(_QUEUES)
    if reader is None:
        return ()
    if found is None:
        return cluster.status.queues
    items = (*found, *(request.fetched(_LOCAL_QUEUES) or ()))
    scheduling = cluster.spec.scheduling
    ours = _submitted_to(scheduling, held or {})
    read = [(reader.read(item, scheduling), item) for item in items]
    queues = [
        _with_used_by_others(queue, item, reader, _used_by_replicas(request, ours[queue.name]))
        if queue.name in ours
        else queue
        for queue, item in read
    ]
    return tuple(sorted(queues, key=lambda queue: (queue.name not in ours, queue.name))[:MAX_QUEUES])


def _submitted_to(scheduling: Scheduling, held: Mapping[str, ReplicaDevices]) -> dict[str, dict[str, int]]:
    """The queues of replicas, each with the devices of those that submit to it."""
    template = queue_template(scheduling)
    if template is None:
        return {}
    found: dict[str, dict[str, int]] = {} if is_per_namespace(template) else {template: {}}
    for name, replica in held.items():
        queue = queue_name(template, replica.namespace)
        if queue is not None:
            found.setdefault(queue, {})[name] = replica.devices
    return found


def _used_by_replicas(request: ComposeRequest[InferenceCluster], held: Mapping[str, int]) -> int:
    """Devices of replicas that a queue counts as used: those of allocated claims; all, until claims are read."""
    claims = request.fetched(_CLAIMS)
    return sum(held.values()) if claims is None else held_by_replicas(claims, held.keys())


def _with_used_by_others(queue: Queue, item: Manifest, reader: QueueReader, by_replicas: int) -> Queue:
    """Replicas hold devices by ResourceClaim only, so use without a claim is never theirs."""
    used = queue.used or 0
    claimed = used if reader.claimed is None else reader.claimed(item)
    return msgspec.structs.replace(queue, used_by_others=max(used - min(by_replicas, claimed), 0))


def kubernetes_version(request: ComposeRequest[InferenceCluster]) -> str | None:
    """The oldest kubelet of the nodes: pods may run on any of them. Until they are read, what was known before."""
    nodes = request.fetched(_NODES)
    if nodes is None:
        return request.resource.status.kubernetes_version
    found = (text_at(node, "status", "nodeInfo", "kubeletVersion") for node in nodes)
    known = {text: minor for text in found if (minor := minor_version(text)) is not None}
    return min(known, key=lambda text: (known[text], text), default=None)


def pools_of(
    request: ComposeRequest[InferenceCluster], replicas: Collection[str] = frozenset()
) -> dict[str, ObservedPool] | None:
    """The observed pools by name. None until Nodes, ResourceSlices and ResourceClaims are all read.

    `replicas` are the names of the ModelReplicas on the cluster.
    """
    nodes, slices, claims = (request.fetched(key) for key in (_NODES, _SLICES, _CLAIMS))
    if nodes is None or slices is None or claims is None:
        return None
    return observed_pools(nodes, slices, claims, replicas)
