"""Volcano: the queue as an annotation, and a PodGroup for pods that need each other.

Volcano makes a group of one for pods that name none, which is right for pods that serve by themselves.

It sees pods that ask for no CPU and no memory as ones that fit anywhere, whatever devices they claim, and counts them
as started when it judges whether a group is complete: half a gang would run. So each pod of a gang asks for something.

Domains of a fabric: each group of a LeaderWorkerSet is a subgroup that stays within one HyperNode. Volcano makes
HyperNodes from node labels where it is told to, and calls the tier as the label is called. It ignores a tier that it
does not know, and a field that it does not know: hence the version that a cluster must state.
"""

from dataclasses import replace

from modelplane.api.labels import ENGINE
from modelplane.api.models import ReplicaEngine, Scheduling
from modelplane.compose.context import group_size
from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import Cohesion, GangMetadata, GangRequest, GangScheduler
from modelplane.compose.pod_defaults import version_known_from

_QUEUE = "scheduling.volcano.sh/queue-name"
_GROUP = "scheduling.k8s.io/group-name"
_LEAST = {"cpu": "1m"}
_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_MAJOR, _HAS_SUBGROUPS = 1, 14


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
    domains = gang.domains
    subgroups = [_subgroup(each, domains[each.name]) for each in context.replica.spec.engines if each.name in domains]
    if subgroups:
        spec["subGroupPolicy"] = subgroups
    group = context.object("scheduling.volcano.sh/v1beta1", "PodGroup", context.name, spec=spec)
    return {"gang-volcano": context.remote(group)}


def _subgroup(engine: ReplicaEngine, key: str) -> dict[str, object]:
    """One for each group of the engine's LeaderWorkerSet."""
    return {
        "name": engine.name,
        "subGroupSize": group_size(engine),
        "labelSelector": {"matchLabels": {ENGINE: engine.name}},
        "matchLabelKeys": [_GROUP_INDEX],
        "networkTopology": {"mode": "hard", "highestTierName": key},
    }


def domain_annotations(_key: str) -> dict[str, str]:
    return {}


def domain_fault(scheduling: Scheduling) -> str | None:
    if version_known_from(scheduling, _HAS_SUBGROUPS, _MAJOR):
        return None
    since = f"{_MAJOR}.{_HAS_SUBGROUPS}"
    return f"spec.scheduling.version: an engine is kept in one domain of a fabric by Volcano {since} or newer"


SCHEDULER = GangScheduler(
    gang_metadata,
    objects,
    companion=gang_metadata,
    domain_annotations=domain_annotations,
    domain_fault=domain_fault,
)
