"""ModelReplica: the objects of one serving instance on its cluster.

    Accepted         the spec can be rendered on its cluster
    Scheduled        its cluster exists and can be read
    CachesReady      every cache that it mounts is staged there
    SecretsReady     every Secret and ConfigMap that its pods name is copied there
    WorkloadReady    its pods are available, by the status of the workload
    RouteReady       the cluster's gateway routes to them
    Ready            all of these

Rendering needs the cluster and the caches. While one is missing or cannot be rendered, the observed objects stay and a
condition says why; the replica serves as long as its workload and its route are ready. Pods are created when their
caches are staged and their Secrets and ConfigMaps exist, and stay when one of them is lost. While a Secret or ConfigMap
is missing, a workload that runs is not changed: its new pods could not start.

ResourceClaimTemplates and the picker's configuration are replaced, not changed. The old one stays until no pod needs
it.
"""

from dataclasses import replace

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import ModelReplica, ModelReplicaStatus
from modelplane.api.objects import name_of
from modelplane.api.reasons import Reason
from modelplane.compose.backends import BACKENDS
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.claims import KEY_PREFIX, claim_templates
from modelplane.compose.context import Context, RenderError
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Observed, Remote, keep_observed
from modelplane.compose.gang import scheduling_fault
from modelplane.compose.pod_defaults import priority_fault
from modelplane.compose.readiness import SERVING
from modelplane.compose.replica_inputs import ReplicaInputs, gather, requirements, uses
from modelplane.compose.replica_references import KEY_PREFIXES, copies
from modelplane.compose.routes import http_route
from modelplane.compose.tenancy import network_policy, tenant_namespace
from modelplane.compose.transitions import transitions
from modelplane.compose.volumes import volumes_of
from modelplane.compose.workload_status import failure, mentions, progress, rolled_out, same_stamp, stamped

_NAMESPACE, _ROUTE, _PICKER, _WORKLOAD = "namespace", "route", "picker", "workload-"
_REPLACED = (KEY_PREFIX, "picker-config-", *KEY_PREFIXES)


def compose(request: ComposeRequest[ModelReplica]) -> ComposeResult:
    inputs = gather(request)
    desired, accepted = _desired(request, inputs)
    conditions = (
        accepted,
        inputs.scheduled,
        inputs.caches_ready,
        inputs.references.condition,
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


def render(context: Context) -> tuple[dict[str, Desired], Rendered]:
    """Every object of a replica, in the order in which they are needed."""
    rendered = BACKENDS[context.cluster.spec.backend.type_](context)
    route = (_ROUTE,)
    workloads = tuple(rendered.workloads)
    policy = network_policy(context, rendered.ports, rendered.pods)
    namespace = tenant_namespace(context.cluster, context.replica.metadata.namespace)
    desired = {_NAMESPACE: Desired(namespace), "policy": Desired(policy, outlives=workloads)}
    desired |= {key: Desired(target, outlives=workloads) for key, target in rendered.support.items()}
    desired |= {key: Desired(target, outlives=workloads) for key, target in claim_templates(context).items()}
    desired |= {key: Desired(stamped(target), outlives=route) for key, target in rendered.workloads.items()}
    desired |= {key: Desired(target, outlives=route) for key, target in rendered.targets.items()}
    desired[_ROUTE] = Desired(http_route(context, rendered.backend_refs))
    return desired, rendered


def _desired(request: ComposeRequest[ModelReplica], inputs: ReplicaInputs) -> tuple[dict[str, Desired], Condition]:
    if inputs.cluster is None or inputs.caches is None:
        waiting = "the cluster or a cache is missing; running pods stay"
        return keep_observed(request), unknown(ConditionType.ACCEPTED, Reason.UNRESOLVED, waiting)
    try:
        volumes = volumes_of(request.resource.spec.caches, inputs.caches)
        context = Context(request.resource, inputs.cluster, volumes)
        _check(context)
        desired, rendered = render(context)
    except RenderError as error:
        return keep_observed(request), fails(ConditionType.ACCEPTED, error.reason, f"{error}; running pods stay")
    desired = _with_copies(desired, copies(context, request, inputs.references, tuple(rendered.workloads)))
    current = {
        key: replace(item, ready=_seen_ready(request, key))
        for key, item in _started(request, inputs, desired, rendered).items()
    }
    return {**_superseded(request, desired), **current}, holds(ConditionType.ACCEPTED, Reason.ACCEPTED)


def _with_copies(desired: dict[str, Desired], copied: dict[str, Desired]) -> dict[str, Desired]:
    """Copies come before the workloads that need them, and after the namespace that they are in."""
    return {_NAMESPACE: desired[_NAMESPACE], **copied, **desired}


def _started(
    request: ComposeRequest[ModelReplica], inputs: ReplicaInputs, desired: dict[str, Desired], rendered: Rendered
) -> dict[str, Desired]:
    """Without the workloads that must wait. One that runs stays, and is not changed while a Secret is missing."""
    staged, found = inputs.caches_ready.status is ConditionStatus.TRUE, inputs.references.found
    started: dict[str, Desired] = {}
    for key, item in desired.items():
        seen = request.observed.get(key) if key in rendered.workloads else None
        if seen is not None and not found:
            started[key] = replace(item, target=seen.target)
        elif key not in rendered.workloads or seen is not None or (staged and found):
            started[key] = item
    return started


def _check(context: Context) -> None:
    name = context.replica.spec.cluster_name
    fault = scheduling_fault(context.scheduling) or priority_fault(context.scheduling, context.priority)
    if fault is not None:
        raise RenderError(Reason.INVALID, f"cluster {name}: {fault}")


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
        if not inputs.references.found:
            return fails(kind, Reason.WAITING_FOR_SECRETS, inputs.references.condition.message)
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
    if serving and _is_rendered(conditions) and all(_is_current(request, key, item) for key, item in desired.items()):
        return generation
    return known if serving or known != generation else None


def _is_rendered(conditions: tuple[Condition, ...]) -> bool:
    """Whether the workloads are those of the spec, and not kept as they were."""
    by_type = {condition.type: condition for condition in conditions}
    accepted, secrets = by_type[ConditionType.ACCEPTED], by_type[ConditionType.SECRETS_READY]
    return accepted.status is ConditionStatus.TRUE and (
        secrets.status is ConditionStatus.TRUE or secrets.reason == Reason.SECRETS_COPYING
    )


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
    needed = [key for key in (_ROUTE, _PICKER) if key in desired]
    waiting = [key for key in needed if not desired[key].ready]
    if needed and not waiting:
        return holds(kind, Reason.ROUTE_CONFIGURED, inputs.address)
    return fails(kind, Reason.ROUTE_PENDING, f"not ready: {', '.join(waiting) or _ROUTE}")
