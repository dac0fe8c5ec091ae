"""What a platform team creates on a cluster beforehand: PriorityClasses, queues, StorageClasses.

An InferenceCluster names its scheduler, its queue and its priorities; the simulated cluster has them, with the quota of
its simulation settings or without a limit. Where each namespace has a queue of its own, there is one for each namespace
with deployments. Objects of others with the same name are not changed.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.models import InferenceCluster, Scheduling
from modelplane.api.objects import Json, labels_of, manifest, with_metadata
from modelplane.api.queues import is_per_namespace, queue_name, queue_scheduler, queue_template
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.nodes import PUBLISHED
from modelplane.sim.cluster.pools import NodePoolSpec, device_classes
from modelplane.sim.cluster.volumes import DEFAULT_CLASS

_PLENTY = 1_000_000
_FLAVOR = "default-flavor"
_LABELS = {PUBLISHED: "true"}


def prerequisites(
    cluster: InferenceCluster,
    pools: Iterable[NodePoolSpec],
    resources: Mapping[str, str],
    quota: int | None,
    namespaces: Iterable[str] = (),
) -> Iterator[Json]:
    scheduling = cluster.spec.scheduling
    for priority in scheduling.priorities:
        yield _object("scheduling.k8s.io/v1", "PriorityClass", priority.name, value=priority.value)
    yield from _classes(cluster)
    named = sorted({resources.get(name, name) for name in device_classes(pools)})
    for queue in _queues(scheduling, namespaces):
        match queue_scheduler(scheduling):
            case "KAI":
                yield from _kai(queue or "default-queue", quota)
            case "Volcano":
                capability = {"nvidia.com/gpu": str(quota)} if quota is not None else {}
                spec = {"weight": 1, **({"capability": capability} if capability else {})}
                yield _object("scheduling.volcano.sh/v1beta1", "Queue", queue or "default", spec=spec)
            case "Kueue" if queue:
                yield from _kueue(queue, named, quota)


def _queues(scheduling: Scheduling, namespaces: Iterable[str]) -> list[str]:
    """Their names; an empty text for the scheduler's default."""
    template = queue_template(scheduling)
    if template is None:
        return [""]
    found = {queue_name(template, namespace) for namespace in namespaces} if is_per_namespace(template) else {template}
    return sorted(name for name in found if name is not None)


def _classes(cluster: InferenceCluster) -> Iterator[Json]:
    """The default StorageClass, and the one that the cluster names."""
    named = cluster.spec.storage.storage_class_name
    body = {"provisioner": "sim.modelplane.ai/volumes", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"}
    default = _object("storage.k8s.io/v1", "StorageClass", "standard", **body)
    yield with_metadata(default, annotations={DEFAULT_CLASS: "true"})
    if named and named != "standard":
        yield _object("storage.k8s.io/v1", "StorageClass", named, **body)


def _kai(queue: str, quota: int | None) -> Iterator[Json]:
    gpus = {"quota": -1 if quota is None else quota, "limit": -1 if quota is None else quota, "overQuotaWeight": 1}
    rest = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": gpus, "cpu": rest, "memory": rest}}
    yield _object("scheduling.run.ai/v2", "Queue", queue, spec=spec)


def _kueue(queue: str, resources: list[str], quota: int | None) -> Iterator[Json]:
    yield _object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", _FLAVOR, spec={})
    amounts = [{"name": name, "nominalQuota": str(_PLENTY if quota is None else quota)} for name in resources]
    flavors = [{"name": _FLAVOR, "resources": amounts}]
    groups = [{"coveredResources": resources, "flavors": flavors}] if resources else []
    spec = {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "resourceGroups": groups}
    yield _object("kueue.x-k8s.io/v1beta2", "ClusterQueue", queue, spec=spec)


def _object(api: str, kind: str, name: str, **body: object) -> Json:
    return {**manifest(api, kind, name, labels=_LABELS), **body}


def apply_prerequisites(store: ClusterStore, wanted: Iterable[Json]) -> None:
    """Create or replace these objects, and delete those of an earlier call that are not among them."""
    items = {ref_of(item): item for item in wanted}
    for group, kind in _KINDS:
        for known in store.list(group, kind, labels=_LABELS):
            if ref_of(known) not in items:
                store.delete(ref_of(known))
    for ref, item in items.items():
        before = store.get(ref)
        if before is None:
            store.create(item)
        elif labels_of(before).get(PUBLISHED) == "true":
            store.replace(item)


_KINDS = (
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("scheduling.run.ai", "Queue"),
    ("scheduling.volcano.sh", "Queue"),
    ("kueue.x-k8s.io", "ClusterQueue"),
    ("kueue.x-k8s.io", "ResourceFlavor"),
)
