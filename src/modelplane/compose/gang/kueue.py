"""Kueue: the queue's name on what makes the pods, and a gate on the pods, so that none starts before it is admitted.

A LocalQueue must be in the namespace of what it admits, and that namespace is ours: so we make one for each tenant, of
the name of the ClusterQueue behind it. Kueue adds the gate itself; writing it down keeps pods from slipping past the
quota while Kueue's webhook does not answer. Kueue counts a group of a LeaderWorkerSet as one.

Pods beside the engines stay out of the queue. Kueue admits nothing that asks for a resource which the queue does not
cover, and queues for devices often cover neither CPU nor memory.

Domains of a fabric are LeaderWorkerSet's business here too. Kueue makes the Workload of a group from the
LeaderWorkerSet, so it admits a leader whose workers do not exist yet. Its own topology-aware scheduling does not count
devices that are claimed: it would send every group to the same rack. A flavor of the queue with a `topologyName` does
so unasked.
"""

from modelplane.api.labels import TENANT
from modelplane.api.models import Scheduling
from modelplane.api.objects import manifest
from modelplane.compose.contract import Remote
from modelplane.compose.gang.gang_metadata import LOCAL_QUEUE, GangMetadata, GangRequest, GangScheduler
from modelplane.compose.pod_defaults import kueue_api, version_before

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
GATE = "kueue.x-k8s.io/admission"
_MAKES_WORKLOADS_OF_GROUPS = 11
"""Before, the Workload of a group is made from its pods, and a leader waits for workers that wait for it."""


def gang_metadata(gang: GangRequest) -> GangMetadata:
    if not gang.queue:
        return GangMetadata()
    labels = {QUEUE_NAME: gang.queue}
    workload_class = _workload_class(gang)
    if workload_class:
        labels[PRIORITY_CLASS] = workload_class
    return GangMetadata(workload_labels=labels, gate=GATE)


def objects(gang: GangRequest) -> dict[str, Remote]:
    if not gang.queue:
        return {}
    context = gang.context
    queue = manifest(
        kueue_api(context.scheduling),
        "LocalQueue",
        gang.queue,
        namespace=context.namespace,
        labels={TENANT: context.replica.metadata.namespace},
        spec={"clusterQueue": gang.queue},
    )
    return {LOCAL_QUEUE: context.remote(queue, shared=True)}


def companion(_gang: GangRequest) -> GangMetadata:
    return GangMetadata()


def _workload_class(gang: GangRequest) -> str | None:
    priorities = gang.context.scheduling.priorities
    return next((found.workload_priority_class for found in priorities if found.name == gang.context.priority), None)


def admission(scheduling: Scheduling) -> tuple[str, str] | None:
    return (kueue_api(scheduling), "Workload") if scheduling.queue else None


def domain_fault(scheduling: Scheduling) -> str | None:
    if not version_before(scheduling, _MAKES_WORKLOADS_OF_GROUPS):
        return None
    since = f"0.{_MAKES_WORKLOADS_OF_GROUPS}"
    return f"spec.scheduling.version: Kueue before {since} cannot keep an engine in one domain of a fabric"


SCHEDULER = GangScheduler(
    gang_metadata, objects, companion, queue_is_label=True, admission=admission, domain_fault=domain_fault
)
