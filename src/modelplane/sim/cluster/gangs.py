"""Which pods belong together, as the gang schedulers see it.

    kai-scheduler   the PodGroup (scheduling.run.ai) that the annotation `pod-group-name` names
    volcano         the PodGroup (scheduling.volcano.sh) that the annotation `scheduling.k8s.io/group-name` names

Where a pod names none, its scheduler's own controller makes one and writes the name on the pod: see `podgrouper`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelplane.api.objects import Manifest, int_at, labels_of, name_of, namespace_of, text_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.objects import annotation

KAI, VOLCANO = "kai-scheduler", "volcano"
KAI_GROUP, VOLCANO_GROUP = "scheduling.run.ai", "scheduling.volcano.sh"
KAI_NAME = "pod-group-name"
VOLCANO_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KAI_QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
_DEFAULT_QUEUES: Mapping[str, str] = MappingProxyType({KAI: "default-queue", VOLCANO: "default"})
_API_GROUPS: Mapping[str, str] = MappingProxyType({KAI: KAI_GROUP, VOLCANO: VOLCANO_GROUP})


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup as the scheduler reads it. One that does not exist has nothing to say yet."""

    ref: ObjectRef
    found: bool
    least: int = 1


def scheduler_of(pod: Manifest) -> str:
    return text_at(pod, "spec", "schedulerName")


def packs(pod: Manifest) -> bool:
    return scheduler_of(pod) in _API_GROUPS


def group_name(pod: Manifest) -> str:
    """The name of the PodGroup that the pod says it belongs to, or an empty text."""
    match scheduler_of(pod):
        case "kai-scheduler":
            return annotation(pod, KAI_NAME)
        case "volcano":
            return next((name for key in VOLCANO_NAMES if (name := annotation(pod, key))), "")
    return ""


def group_ref(pod: Manifest) -> ObjectRef | None:
    name = group_name(pod)
    return ObjectRef(_API_GROUPS[scheduler_of(pod)], "PodGroup", namespace_of(pod), name) if name else None


def gang_of(pod: Manifest, store: ClusterStore) -> PodGroup | None:
    """None for pods that are scheduled by themselves."""
    if scheduler_of(pod) not in _API_GROUPS:
        return None
    ref = group_ref(pod)
    if ref is None:
        return PodGroup(
            ObjectRef(_API_GROUPS[scheduler_of(pod)], "PodGroup", namespace_of(pod), name_of(pod)), found=False
        )
    group = store.get(ref)
    return (
        PodGroup(ref, found=False)
        if group is None
        else PodGroup(ref, found=True, least=int_at(group, "spec", "minMember"))
    )


def queue_of(pod: Manifest, store: ClusterStore) -> ObjectRef | None:
    """The queue whose quota the pod counts against; None where its scheduler has no queues."""
    scheduler = scheduler_of(pod)
    if scheduler not in _API_GROUPS:
        return None
    ref = group_ref(pod)
    stated = text_at((store.get(ref) if ref is not None else None) or {}, "spec", "queue")
    name = stated or own_queue(pod) or _DEFAULT_QUEUES[scheduler]
    return ObjectRef(_API_GROUPS[scheduler], "Queue", "", name)


def own_queue(item: Manifest) -> str:
    """The queue that a pod or its owner names, or an empty text."""
    labels = labels_of(item)
    return next((labels[key] for key in KAI_QUEUE_LABELS if key in labels), "") or annotation(item, VOLCANO_QUEUE)
