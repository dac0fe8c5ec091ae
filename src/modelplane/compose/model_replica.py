"""ModelReplica: the objects of one serving instance on its cluster.

    Accepted         the spec can be rendered on its cluster
    Scheduled        its cluster exists and can be read
    CachesReady      every cache that it mounts is staged there
    WorkloadReady    its pods are available, by the status of the workload
    RouteReady       the cluster's gateway routes to them
    Ready            all of these

Rendering needs the cluster and the caches. While one is missing or cannot be rendered, the observed objects stay and a
condition says why; the replica serves as long as its workload and its route are ready. Pods are created when their
caches are staged, and stay when a cache is lost.

ResourceClaimTemplates and the picker's configuration are replaced, not changed. The old one stays until no pod needs
it.
"""

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import ModelReplica, ModelReplicaStatus
from modelplane.api.objects import name_of
from modelplane.api.reasons import Reason
from modelplane.compose.claims import KEY_PREFIX
from modelplane.compose.context import ClusterRenderError, Context, RenderError
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Observed, Remote, keep_observed
from modelplane.compose.readiness import SERVING
from modelplane.compose.rendering import ROUTE, render
from modelplane.compose.replica_inputs import ReplicaInputs, gather, requirements, uses
from modelplane.compose.transitions import transitions
from modelplane.compose.volumes import volumes_of
from modelplane.compose.workload_status import failure, mentions, progress, rolled_out, same_stamp

_PICKER, _WORKLOAD = "picker", "workload-"
_REPLACED = (KEY_PREFIX, "picker-config-")


def compose(request: ComposeRequest[ModelReplica]) -> ComposeResult:
    inputs = gather(request)
    desired, accepted = _desired(request, inputs)
    conditions = (
        accepted,
        inputs.scheduled,
        inputs.caches_ready,
        _workload(request, desired, inputs),
        _routed(desired, inputs),
    )
    replica = request.resource
    return ComposeResult(
        desired=desired,
        status=ModelReplicaStatus(
            address=inputs.address, served_generation=_served_generation(request, desired, conditions)
        ),
        conditions=conditions,
        ready=summarise(conditions),
        events=transitions(replica.status.conditions, conditions),
        requirements=requirements(replica),
        uses=uses(replica),
    )


def _desired(request: ComposeRequest[ModelReplica], inputs: ReplicaInputs) -> tuple[dict[str, Desired], Condition]:
    if inputs.cluster is None or inputs.caches is None:
        waiting = "the cluster or a cache is missing; running pods stay"
        return keep_observed(request), unknown(ConditionType.ACCEPTED, Reason.UNRESOLVED, waiting)
    try:
        volumes = volumes_of(request.resource.spec.caches, inputs.caches)
        context = Context(request.resource, inputs.cluster, volumes)
        desired, rendered = render(context)
    except RenderError as error:
        where = f"cluster {request.resource.spec.cluster_name}: " if isinstance(error, ClusterRenderError) else ""
        problem = fails(ConditionType.ACCEPTED, error.reason, f"{where}{error}; running pods stay")
        return keep_observed(request), problem
    staged = inputs.caches_ready.status is ConditionStatus.TRUE
    started = {key for key in rendered.workloads if staged or key in request.observed}
    current = {
        key: Desired(item.target, _seen_ready(request, key), item.outlives)
        for key, item in desired.items()
        if key in started or key not in rendered.workloads
    }
    return {**_superseded(request, desired), **current}, holds(ConditionType.ACCEPTED, Reason.ACCEPTED)


def _seen_ready(request: ComposeRequest[ModelReplica], key: str) -> bool:
    seen = request.observed.get(key)
    return seen is not None and seen.ready


def _superseded(request: ComposeRequest[ModelReplica], desired: dict[str, Desired]) -> dict[str, Desired]:
    """Replaced objects that pods may still refer to."""
    old = {
        key: seen
        for key, seen in request.observed.items()
        if key.startswith(_REPLACED) and key not in desired and isinstance(seen.target, Remote)
    }
    if not old:
        return {}
    users = [seen for key, seen in request.observed.items() if _is_user(key)]
    outlives = tuple(key for key in desired if _is_user(key))
    return {
        key: Desired(seen.target, seen.ready, outlives)
        for key, seen in old.items()
        if any(_needs(user, name_of(seen.manifest)) for user in users)
    }


def _is_user(key: str) -> bool:
    return key.startswith(_WORKLOAD) or key == _PICKER


def _needs(user: Observed, name: str) -> bool:
    return not rolled_out(user.manifest) or mentions(user.manifest, name)


def _workload(request: ComposeRequest[ModelReplica], desired: dict[str, Desired], inputs: ReplicaInputs) -> Condition:
    kind = ConditionType.WORKLOAD_READY
    workloads = {key: item for key, item in desired.items() if key.startswith(_WORKLOAD)}
    if not workloads:
        if inputs.caches_ready.status is not ConditionStatus.TRUE:
            return fails(kind, Reason.WAITING_FOR_CACHES, inputs.caches_ready.message)
        return fails(kind, Reason.CREATING, "the workload is not created yet")
    waiting = [key for key, item in workloads.items() if not item.ready]
    if not waiting:
        return holds(kind, Reason.WORKLOAD_AVAILABLE)
    seen = [request.observed[key].manifest for key in waiting if key in request.observed]
    problem = next((found for item in seen if (found := failure(item)) is not None), None)
    if problem is not None:
        return fails(kind, Reason.WORKLOAD_FAILED, problem)
    message = "; ".join(progress(item) for item in seen) or "the workload is not observed yet"
    return fails(kind, Reason.WORKLOAD_STARTING, message)


def _served_generation(
    request: ComposeRequest[ModelReplica], desired: dict[str, Desired], conditions: tuple[Condition, ...]
) -> int | None:
    """The newest generation that served with all its pods: by it a deployment changes one replica at a time."""
    replica = request.resource
    generation, known = replica.metadata.generation or None, replica.status.served_generation
    serving = all(condition.status is ConditionStatus.TRUE for condition in conditions if condition.type in SERVING)
    accepted = conditions[0].status is ConditionStatus.TRUE
    if serving and accepted and all(_is_current(request, key, item) for key, item in desired.items()):
        return generation
    return known if serving or known != generation else None


def _is_current(request: ComposeRequest[ModelReplica], key: str, item: Desired) -> bool:
    """Whether what is observed of a workload is what it should be, down to its pods."""
    if not key.startswith(_WORKLOAD):
        return True
    seen = request.observed.get(key)
    return (
        seen is not None
        and isinstance(item.target, Remote)
        and same_stamp(item.target.manifest, seen.manifest)
        and rolled_out(seen.manifest)
    )


def _routed(desired: dict[str, Desired], inputs: ReplicaInputs) -> Condition:
    kind = ConditionType.ROUTE_READY
    if inputs.address is None:
        if inputs.cluster is None:
            return unknown(kind, Reason.UNRESOLVED, "the cluster is not read yet")
        return fails(kind, Reason.WAITING_FOR_GATEWAY, "the cluster's gateway has no address")
    needed = [key for key in (ROUTE, _PICKER) if key in desired]
    waiting = [key for key in needed if not desired[key].ready]
    if needed and not waiting:
        return holds(kind, Reason.ROUTE_CONFIGURED, inputs.address)
    return fails(kind, Reason.ROUTE_PENDING, f"not ready: {', '.join(waiting) or ROUTE}")
