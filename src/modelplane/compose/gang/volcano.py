"""Volcano: the queue as an annotation, and a PodGroup for pods that need each other.

Volcano makes a group of one for pods that name none, which is right for pods that serve by themselves.
"""

from modelplane.compose.contract import Remote
from modelplane.compose.gang.marks import Cohesion, Gang, Marks, Scheduler

_QUEUE = "scheduling.volcano.sh/queue-name"
_GROUP = "scheduling.k8s.io/group-name"


def marks(gang: Gang) -> Marks:
    queue = {_QUEUE: gang.queue} if gang.queue else {}
    group = {} if gang.cohesion is Cohesion.APART else {_GROUP: gang.context.name}
    return Marks(pod_annotations={**queue, **group}, owner_annotations=queue, scheduler_name="volcano")


def objects(gang: Gang) -> dict[str, Remote]:
    if gang.cohesion is Cohesion.APART:
        return {}
    context = gang.context
    spec: dict[str, object] = {"minMember": gang.pods}
    if gang.queue:
        spec["queue"] = gang.queue
    if context.priority:
        spec["priorityClassName"] = context.priority
    group = context.object("scheduling.volcano.sh/v1beta1", "PodGroup", context.name, spec=spec)
    return {"gang-volcano": context.remote(group)}


SCHEDULER = Scheduler(marks, objects, companion=marks)
