"""An engine that fits one node: a Deployment.

Updates replace one pod at a time without a surge: placement counted the devices that run, and none for a surge.
"""

from modelplane.api.labels import ENGINE, REPLICA
from modelplane.api.models import ReplicaEngine
from modelplane.compose.context import Context
from modelplane.compose.contract import ReadyWhen, Remote
from modelplane.compose.gang.gang_metadata import GangMetadata
from modelplane.compose.pods import render_pod, start_budget_s
from modelplane.compose.sidecar import with_sidecar
from modelplane.compose.workload_metadata import annotated, engine_label, workload_metadata

_PROGRESS_MARGIN_S = 600


def deployment(context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata) -> Remote:
    member = engine.members[0]
    pod = with_sidecar(context, engine, member, render_pod(context, engine, member, gang_metadata))
    labels, annotations = workload_metadata(context, member, gang_metadata)
    spec = {
        "replicas": engine.copies,
        "selector": {"matchLabels": {REPLICA: context.name, ENGINE: engine.name}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "progressDeadlineSeconds": start_budget_s(context) + _PROGRESS_MARGIN_S,
        "template": pod.template(),
    }
    merged = {**labels, **engine_label(engine)}
    item = context.object("apps/v1", "Deployment", context.workload_name(engine), merged, spec=spec)
    return context.remote(annotated(item, annotations), ReadyWhen.AVAILABLE)
