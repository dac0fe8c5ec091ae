"""What a platform team creates on a cluster beforehand: PriorityClasses, queues, StorageClasses.

An InferenceCluster names its scheduler, its queue and its priorities; the simulated cluster has them, with the quota of
its simulation settings or without a limit. A queue may also be named by the labels or annotations of every pod. Where
the name has the placeholder of the namespace, there is one for each namespace with deployments. Objects of others with
the same name are not changed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.cluster_storage import declared_class
from modelplane.api.models import InferenceCluster, Scheduling
from modelplane.api.objects import Json, labels_of, manifest, with_metadata
from modelplane.api.queues import is_per_namespace, queue_scheduler
from modelplane.catalog.stack import load_stack
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.gangs import KAI, KAI_QUEUE_LABELS, VOLCANO, VOLCANO_QUEUE
from modelplane.sim.cluster.nodes import PUBLISHED
from modelplane.sim.cluster.pools import NodePoolSpec, device_classes
from modelplane.sim.cluster.volumes import DEFAULT_CLASS

_BY_NAME = {KAI: "KAI", VOLCANO: "Volcano"}
_USUAL = {"KAI": "default-queue", "Volcano": "default"}
_PLACEHOLDER = re.compile(r"\{\{ ?\.(\w+) ?\}\}")
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
    """`namespaces` are those of the teams that have deployments."""
    cluster = with_chosen_scheduler(cluster)
    scheduling = cluster.spec.scheduling
    for priority in scheduling.priorities:
        yield _object("scheduling.k8s.io/v1", "PriorityClass", priority.name, value=priority.value)
    yield from _classes(cluster)
    yield from _software(cluster)
    queues = queue_names(cluster, namespaces)
    match queueing_scheduler(scheduling):
        case "KAI":
            yield from (_kai(queue, quota) for queue in queues)
        case "Volcano":
            yield from (_volcano(queue, quota) for queue in queues)
        case "Kueue":
            named = sorted({resources.get(name, name) for name in device_classes(pools)})
            yield from (item for queue in queues for item in _kueue(queue, named, quota))


def queueing_scheduler(scheduling: Scheduling) -> str | None:
    """The scheduler whose queues pods go through: the cluster's type, or else what its scheduler is called."""
    found = queue_scheduler(scheduling)
    return found if found != "None" else _BY_NAME.get(scheduling.scheduler_name or "")


def queue_names(cluster: InferenceCluster, namespaces: Iterable[str]) -> list[str]:
    """The queues that pods of the cluster name by its queue, its labels and its annotations."""
    scheduling = cluster.spec.scheduling
    scheduler = queueing_scheduler(scheduling)
    labels = [scheduling.default_labels[key] for key in KAI_QUEUE_LABELS if key in scheduling.default_labels]
    noted = scheduling.default_annotations.get(VOLCANO_QUEUE)
    by_pods = labels if scheduler == "KAI" else [noted] if noted else []
    own = {"Cluster": cluster.metadata.name}
    teams = [{"Namespace": namespace, **own} for namespace in namespaces] or [own]
    stated = [scheduling.queue or "", *by_pods]
    written = {_expanded(text, each) for text in stated for each in teams}
    found = sorted(name for name in written if name and "{{" not in name)
    usual = _USUAL.get(scheduler or "")
    return found if found or usual is None or any(map(is_per_namespace, stated)) else [usual]


def _expanded(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders replaced; one without a value stays."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _classes(cluster: InferenceCluster) -> Iterator[Json]:
    """The default StorageClass, and the one that the cluster names."""
    named = declared_class(cluster)
    body = {"provisioner": "sim.modelplane.ai/volumes", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"}
    default = _object("storage.k8s.io/v1", "StorageClass", "standard", **body)
    yield with_metadata(default, annotations={DEFAULT_CLASS: "true"})
    if named and named != "standard":
        yield _object("storage.k8s.io/v1", "StorageClass", named, **body)


def _software(cluster: InferenceCluster) -> Iterator[Json]:
    """The signs of the software that a simulated cluster behaves as if it had, where somebody looks for them."""
    existing = cluster.spec.cluster.existing
    if existing is None or existing.components != "Provided":
        return
    for component in load_stack().components:
        for found in component.provides.objects():
            if found.kind != "DeviceClass":  # the driver of its nodes publishes those
                yield _object(found.api_version, found.kind, found.name)


def _volcano(queue: str, quota: int | None) -> Json:
    capability = {"nvidia.com/gpu": str(quota)} if quota is not None else {}
    spec = {"weight": 1, **({"capability": capability} if capability else {})}
    return _object("scheduling.volcano.sh/v1beta1", "Queue", queue, spec=spec)


def _kai(queue: str, quota: int | None) -> Json:
    gpus = {"quota": -1 if quota is None else quota, "limit": -1 if quota is None else quota, "overQuotaWeight": 1}
    rest = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": gpus, "cpu": rest, "memory": rest}}
    return _object("scheduling.run.ai/v2", "Queue", queue, spec=spec)


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
    ("apiregistration.k8s.io", "APIService"),
    ("gateway.networking.k8s.io", "GatewayClass"),
)
