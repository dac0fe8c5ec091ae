"""Volcano: the queue as an annotation, and a PodGroup for pods that need each other.

Volcano makes a group of one for pods that name none, which is right for pods that serve by themselves.

It sees pods that ask for no CPU and no memory as ones that fit anywhere, whatever devices they claim, and counts them
as started when it judges whether a group is complete: half a gang would run. So each pod of a gang asks for something.
"""

from dataclasses import replace

from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import Cohesion, GangMetadata, GangRequest, GangScheduler

_QUEUE = "scheduling.volcano.sh/queue-name"
_GROUP = "scheduling.k8s.io/group-name"
_LEAST = {"cpu": "1m"}


def gang_metadata(gang: GangRequest) -> GangMetadata:
    queue = {_QUEUE: gang.queue} if gang.queue else {}
    gang_metadata = GangMetadata(pod_annotations=queue, workload_annotations=queue, scheduler_name="volcano")
    if gang.cohesion is Cohesion.APART:
        return gang_metadata
    return replace(gang_metadata, pod_annotations={**queue, _GROUP: gang.context.name}, least=_LEAST)


def objects(gang: GangRequest) -> dict[str, Remote]:
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


SCHEDULER = GangScheduler(gang_metadata, objects, companion=gang_metadata)
