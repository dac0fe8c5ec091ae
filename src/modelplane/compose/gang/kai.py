"""KAI: a queue label on every pod and its owner, and a PodGroup where KAI's own grouper would make a wrong one.

Its grouper makes a gang of each LeaderWorkerSet group by itself. It knows nothing of phases that need each other, and
takes pods of owners that it does not know for single ones; there the pods name a PodGroup of ours, sized to the whole
gang, and the grouper is told to keep away.
"""

from modelplane.compose.contract import Remote
from modelplane.compose.gang.marks import Cohesion, Gang, Marks, Scheduler

_QUEUE = "kai.scheduler/queue"
_OLD_QUEUE = "runai/queue"
_DEFAULT_QUEUE = "default-queue"


def marks(gang: Gang) -> Marks:
    labels = {_queue_label(gang): gang.queue} if gang.queue else {}
    annotations: dict[str, str] = {}
    if gang.cohesion is Cohesion.WHOLE:
        annotations["pod-group-name"] = gang.context.name
        if not gang.version_before(15):
            annotations["kai.scheduler/skip-podgrouper"] = "true"
    return Marks(pod_labels=labels, pod_annotations=annotations, owner_labels=labels, scheduler_name="kai-scheduler")


def objects(gang: Gang) -> dict[str, Remote]:
    if gang.cohesion is not Cohesion.WHOLE:
        return {}
    context = gang.context
    spec: dict[str, object] = {"minMember": gang.pods, "queue": gang.queue or _DEFAULT_QUEUE}
    if context.priority:
        spec["priorityClassName"] = context.priority
    labels = {_queue_label(gang): gang.queue} if gang.queue else {}
    group = context.object("scheduling.run.ai/v2alpha2", "PodGroup", context.name, labels, spec=spec)
    return {"gang-kai": context.remote(group)}


def _queue_label(gang: Gang) -> str:
    return _OLD_QUEUE if gang.version_before(6) else _QUEUE


SCHEDULER = Scheduler(marks, objects)
