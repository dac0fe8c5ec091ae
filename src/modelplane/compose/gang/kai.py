"""KAI: a queue label on every pod and its owner, and a PodGroup where KAI's own grouper would make a wrong one.

Its grouper makes a gang of each LeaderWorkerSet group by itself. It knows nothing of phases that need each other, and
takes pods of owners that it does not know for single ones; there the pods name a PodGroup of ours, sized to the whole
gang, and the grouper is told to keep away. Before 0.15 it does not listen and puts every pod that something owns into
groups of its own, so there only the pods of one LeaderWorkerSet group wait for each other.

By default KAI takes pods of LeaderWorkerSets, and of owners that it does not know, for training that may be preempted.
Serving is not: without a priority the pods say so themselves, and so use no more than their queue's quota. A cluster
that has it otherwise says it in `defaultLabels` or by a default priority.

A gang below its size is evicted as a whole after a minute, and a pod that is replaced stays away for longer: the new
one waits for the devices that the old one holds while it drains. From 0.17 on our PodGroup says how long to wait, where
the cluster says that its KAI is that new: an older one refuses a PodGroup with a field that it does not know, and no
pod of the gang would ever start. With an older KAI only the setting of the scheduler itself helps,
--default-staleness-grace-period.

Domains of a fabric: the grouper copies the topology that a LeaderWorkerSet names to the group of each of its groups.
A PodGroup of ours could not say it, for the pods of all groups have one template and so are one subgroup. So where an
engine stays in a domain, phases do not wait for each other.
"""

from modelplane.api.models import Scheduling
from modelplane.api.names import make_name
from modelplane.api.objects import manifest
from modelplane.compose.context import grace_seconds
from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import Cohesion, GangMetadata, GangRequest, GangScheduler
from modelplane.compose.pod_defaults import version_before

_QUEUE = "kai.scheduler/queue"
_OLD_QUEUE = "runai/queue"
_DEFAULT_QUEUE = "default-queue"
_PREEMPTIBILITY, _NON_PREEMPTIBLE = "kai.scheduler/preemptibility", "non-preemptible"
_PRIORITY, _SERVING = "priorityClassName", "inference"
"""KAI reads the class from a label as well; the class is one of its own."""
_KNOWS_PREEMPTIBILITY, _LEAVES_PODS_ALONE, _KNOWS_STALENESS = 12, 15, 17
_HAS_TOPOLOGIES = 12
_TOPOLOGY, _REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
_REBIND_S = 300
"""For the pod that replaces another to be made, scheduled and bound, its devices once free."""


def gang_metadata(gang: GangRequest) -> GangMetadata:
    labels = {**_queue(gang), **_serving_label(gang)}
    annotations: dict[str, str] = {}
    if _is_ours(gang):
        annotations = {"pod-group-name": gang.context.name, "kai.scheduler/skip-podgrouper": "true"}
    return GangMetadata(
        pod_labels=labels, pod_annotations=annotations, workload_labels=labels, scheduler_name="kai-scheduler"
    )


def objects(gang: GangRequest) -> dict[str, Remote]:
    return {**_topologies(gang), **_group(gang)}


def _topologies(gang: GangRequest) -> dict[str, Remote]:
    """One for each label, for all replicas of the cluster: KAI places no pod whose topology does not exist."""
    keys = sorted(set(gang.domains.values()))
    return {f"topology-{_topology_name(key)}": gang.context.remote(_topology(key), shared=True) for key in keys}


def _topology(key: str) -> dict[str, object]:
    spec = {"levels": [{"nodeLabel": key}]}
    return manifest("kai.scheduler/v1alpha1", "Topology", _topology_name(key), spec=spec)


def _topology_name(key: str) -> str:
    return make_name(f"modelplane-{key}", key)


def _group(gang: GangRequest) -> dict[str, Remote]:
    if not _is_ours(gang):
        return {}
    context = gang.context
    spec: dict[str, object] = {"minMember": gang.pods, "queue": gang.queue or _DEFAULT_QUEUE}
    spec |= _standing(gang)
    if gang.version_known_from(_KNOWS_STALENESS):
        spec["stalenessGracePeriod"] = f"{_longest_grace(gang) + _REBIND_S}s"
    group = context.object("scheduling.run.ai/v2alpha2", "PodGroup", context.name, _queue(gang), spec=spec)
    return {"gang-kai": context.remote(group)}


def _is_ours(gang: GangRequest) -> bool:
    """Whether the group is of our making."""
    return gang.cohesion is Cohesion.WHOLE and not gang.domains and not gang.version_before(_LEAVES_PODS_ALONE)


def _queue(gang: GangRequest) -> dict[str, str]:
    label = _OLD_QUEUE if gang.version_before(6) else _QUEUE
    return {label: gang.queue} if gang.queue else {}


def _serving_label(gang: GangRequest) -> dict[str, str]:
    if gang.context.priority or _PREEMPTIBILITY in gang.context.scheduling.default_labels:
        return {}
    return {_PRIORITY: _SERVING} if gang.version_before(_KNOWS_PREEMPTIBILITY) else {_PREEMPTIBILITY: _NON_PREEMPTIBLE}


def _standing(gang: GangRequest) -> dict[str, str]:
    """The same of a PodGroup."""
    if gang.context.priority:
        return {"priorityClassName": gang.context.priority}
    given = gang.context.scheduling.default_labels.get(_PREEMPTIBILITY)
    return {"preemptibility": "preemptible" if given == "preemptible" else _NON_PREEMPTIBLE}


def _longest_grace(gang: GangRequest) -> int:
    engines = gang.context.replica.spec.engines
    return max(grace_seconds(engine, member) for engine in engines for member in engine.members)


def domain_annotations(key: str) -> dict[str, str]:
    return {_TOPOLOGY: _topology_name(key), _REQUIRED: key}


def domain_fault(scheduling: Scheduling) -> str | None:
    if not version_before(scheduling, _HAS_TOPOLOGIES):
        return None
    return f"spec.scheduling.version: KAI before 0.{_HAS_TOPOLOGIES} cannot keep an engine in one domain of a fabric"


SCHEDULER = GangScheduler(
    gang_metadata,
    objects,
    companion=gang_metadata,
    queue_is_label=True,
    domain_annotations=domain_annotations,
    domain_fault=domain_fault,
)
