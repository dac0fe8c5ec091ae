"""What clusters run without KServe: Deployments, and by the stack LeaderWorkerSets or PodCliqueSets for gangs."""

from collections.abc import Callable, Mapping

from modelplane.api.labels import SERVING
from modelplane.api.models import ReplicaEngine
from modelplane.api.reasons import Reason
from modelplane.compose.backends.deployment import deployment
from modelplane.compose.backends.grove import pod_clique_set
from modelplane.compose.backends.lws import leader_worker_set
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.context import ClusterRenderError, Context, has_pools, is_gang
from modelplane.compose.contract import Remote
from modelplane.compose.disruption import disruption_budgets
from modelplane.compose.gang import SCHEDULERS
from modelplane.compose.gang.gang_metadata import GangMetadata, gang_of
from modelplane.compose.picker import GRPC_PORT, METRICS_PORT, POOL_GROUP, pool_name, pool_objects
from modelplane.compose.pods import HTTP
from modelplane.compose.ports import serving_port

SERVICE_PORT = 80
_NO_POOLS = "prefill and decode apart need spec.backend.routing: InferencePool, and a gateway that knows such pools"
_Workload = Callable[[Context, ReplicaEngine, GangMetadata], Remote]
_GANGS: Mapping[str, tuple[str, _Workload]] = {
    "Standard": ("lws", leader_worker_set),
    "Dynamo": ("grove", pod_clique_set),
}
"""By the stack. The kind is part of an object's key: another kind is another object, not a new version."""


def render(context: Context) -> Rendered:
    if context.disaggregated and not has_pools(context.cluster.spec.backend):
        raise ClusterRenderError(Reason.NOT_SUPPORTED, _NO_POOLS)
    scheduler = SCHEDULERS[context.scheduling.type_]
    gang = gang_of(context)
    gang_metadata = scheduler.gang_metadata(gang)
    workloads = dict(_workload(context, engine, gang_metadata) for engine in context.replica.spec.engines)
    support = {**scheduler.objects(gang), **disruption_budgets(context)}
    port = serving_port(context)
    if context.disaggregated or context.cluster.spec.backend.routing == "InferencePool":
        pool = {"group": POOL_GROUP, "kind": "InferencePool", "name": pool_name(context)}
        return Rendered(workloads, pool_objects(context), (pool,), (port, GRPC_PORT, METRICS_PORT), support)
    ref = {"name": context.name, "port": SERVICE_PORT}
    return Rendered(workloads, {"service": _service(context)}, (ref,), (port,), support)


def _workload(context: Context, engine: ReplicaEngine, gang_metadata: GangMetadata) -> tuple[str, Remote]:
    kind, rendered = _GANGS[context.cluster.spec.stack] if is_gang(engine) else ("deployment", deployment)
    return f"workload-{engine.name}-{kind}", rendered(context, engine, gang_metadata)


def _service(context: Context) -> Remote:
    port = {"name": HTTP, "port": SERVICE_PORT, "targetPort": HTTP, "protocol": "TCP"}
    spec = {"selector": {SERVING: context.name}, "ports": [port]}
    return context.remote(context.object("v1", "Service", context.name, spec=spec))
