"""An engine that spans nodes, on the stack Dynamo: a PodCliqueSet of Grove, one replica of it for each copy.

Each replica is a gang of its own: Grove makes a PodGang of it, and KAI places all of its pods or none. Every node is a
clique of one pod, because Grove numbers the pods of a clique from 0 and a variable cannot be added to: so the rank is
written out. The leader is found by the name that Grove gives its pod. Variables of Grove's own are not used: it adds
them after ours, which could not refer to them.

Nothing starts a whole gang anew when one pod fails, as a LeaderWorkerSet does. The other engines of the gang fail with
their collectives, and kubelets start them again. A gang that stays below its size is replaced once an engine would have
had the time to load.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelplane.api.models import ReplicaEngine, ReplicaMember
from modelplane.api.reasons import Reason
from modelplane.compose.backends.lws import leader_and_worker
from modelplane.compose.context import ClusterRenderError, Context, group_size
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.engines.launch import GROUP_SIZE, LEADER_ADDRESS, RANK
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.compose.pods import RenderedPod, render_pod, start_budget_s
from modelplane.compose.sidecar import with_sidecar
from modelplane.compose.workload_metadata import annotated, engine_label, workload_metadata

_LEADER = "leader"
_COPY = "MODELPLANE_COPY"
_COPY_LABEL = "grove.io/podcliqueset-replica-index"


def pod_clique_set(context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata) -> Remote:
    leader, worker = leader_and_worker(engine)
    _check(engine, leader, worker)
    labels, annotations = workload_metadata(context, leader, gang_metadata)
    cliques = [_clique(context, engine, leader, gang_metadata, 0)]
    cliques += [_clique(context, engine, worker, gang_metadata, rank) for rank in range(1, group_size(engine))]
    template = {
        "cliqueStartupType": "CliqueStartupTypeAnyOrder",
        "terminationDelay": f"{start_budget_s(context)}s",
        "headlessServiceConfig": {"publishNotReadyAddresses": True},
        **({"priorityClassName": context.priority} if context.priority else {}),
        "cliques": cliques,
    }
    item = context.object(
        "grove.io/v1alpha1",
        "PodCliqueSet",
        context.workload_name(engine),
        {**labels, **engine_label(engine)},
        spec={"replicas": engine.copies, "template": template},
    )
    return context.remote(annotated(item, annotations), ReadyWhen.COUNTED)


def _check(engine: ReplicaEngine, *members: ReplicaMember) -> None:
    if any(member.template.spec.topology_spread_constraints for member in members):
        message = f"engine {engine.name}: Grove refuses topologySpreadConstraints; the stack Standard takes them"
        raise ClusterRenderError(Reason.NOT_SUPPORTED, message)


def _clique(
    context: Context, engine: ReplicaEngine, member: ReplicaMember, gang_metadata: GangMetadata, rank: int
) -> dict[str, object]:
    name = f"w{rank}" if rank else _LEADER
    own = replace(context, group_env=_group_env(context, engine, rank))
    pod = render_pod(own, engine, member, gang_metadata)
    pod = pod if rank else with_sidecar(own, engine, member, pod)
    spec = {"roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": dict(pod.spec)}
    return {"name": name, **_metadata(pod), "spec": spec}


def _metadata(pod: RenderedPod) -> Mapping[str, object]:
    """Grove puts a clique's labels and annotations on its pods."""
    annotations = {"annotations": dict(pod.annotations)} if pod.annotations else {}
    return {"labels": dict(pod.labels), **annotations}


def _group_env(context: Context, engine: ReplicaEngine, rank: int) -> tuple[Mapping[str, object], ...]:
    """The number of the copy is a label that Grove gives the pod; both names that Grove makes begin with it."""
    service = f"{context.workload_name(engine)}-$({_COPY})"
    copy = {"fieldRef": {"fieldPath": f"metadata.labels['{_COPY_LABEL}']"}}
    return (
        {"name": _COPY, "valueFrom": copy},
        {"name": LEADER_ADDRESS, "value": f"{service}-{_LEADER}-0.{service}.{context.namespace}"},
        {"name": RANK, "value": str(rank)},
        {"name": GROUP_SIZE, "value": str(group_size(engine))},
    )
