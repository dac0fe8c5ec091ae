"""An engine that spans nodes: a LeaderWorkerSet, one group for each copy.

A group lives and dies together: the collectives of an engine do not survive the loss of a node. Leaders do not wait to
become ready before workers are made, for they wait for their workers.
"""

from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.compose.context import Context, group_size
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.fabric_domains import topology_key
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.compose.pods import render_pod
from modelplane.compose.sidecar import with_sidecar
from modelplane.compose.workload_metadata import annotated, engine_label, workload_metadata


def leader_worker_set(context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata) -> Remote:
    leader, worker = leader_and_worker(engine)
    labels, annotations = workload_metadata(context, leader, gang_metadata)
    head = with_sidecar(context, engine, leader, render_pod(context, engine, leader, gang_metadata))
    spec = {
        "replicas": engine.copies,
        "startupPolicy": "LeaderCreated",
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
        },
        "leaderWorkerTemplate": {
            "size": group_size(engine),
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": head.template(),
            "workerTemplate": render_pod(context, engine, worker, gang_metadata).template(),
        },
    }
    item = context.object(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        context.workload_name(engine),
        {**labels, **engine_label(engine)},
        spec=spec,
    )
    key = topology_key(context.cluster, leader.node_pool_name)
    domain = SCHEDULERS[context.scheduling.type_].domain_annotations(key) if key is not None else {}
    return context.remote(annotated(item, {**annotations, **domain}), ReadyWhen.AVAILABLE)


def leader_and_worker(engine: ReplicaEngine) -> tuple[ReplicaMember, ReplicaMember]:
    by_role = {member.role: member for member in engine.members}
    return by_role["Leader"], by_role["Worker"]
