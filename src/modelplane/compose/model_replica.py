"""ModelReplica: the objects of one serving instance on its cluster.

    Accepted         the spec can be rendered on its cluster
    Scheduled        its cluster exists and can be read
    CachesReady      every cache that it mounts is staged there
    SecretsReady     every Secret and ConfigMap that its pods name is copied there
    WorkloadReady    its pods are available, by the status of the workload; else the worst cause of its pods
    RouteReady       the cluster's gateway routes to them
    Ready            all of these

Rendering needs the cluster and the caches. While one is missing or cannot be rendered, the observed objects stay and a
condition says why; the replica serves as long as its workload and its route are ready. Pods are created when their
caches are staged and their Secrets and ConfigMaps exist, and stay when one of them is lost. While a Secret or ConfigMap
is missing, a workload that runs is not changed: its new pods could not start.

ResourceClaimTemplates, ComputeDomains and the picker's configuration are replaced, not changed. The old one stays until
every workload is observed to have no pod that needs it.
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, summarise, unknown
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest, name_of
from modelplane.api.reasons import Reason
from modelplane.compose.backends.rendered import Rendered
from modelplane.compose.claims import KEY_PREFIX
from modelplane.compose.compute_domains import DOMAIN_PREFIX
from modelplane.compose.context import ClusterRenderError, Context, RenderError
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Observed, Remote, keep_observed
from modelplane.compose.kept_images import kept_images
from modelplane.compose.picker import PICKER
from modelplane.compose.readiness import SERVING
from modelplane.compose.rendering import NAMESPACE, ROUTE, render
from modelplane.compose.replica_causes import (
    WORKLOAD,
    replica_status,
    route_condition,
    workload_cause,
    workload_condition,
)
from modelplane.compose.replica_inputs import ReplicaInputs, gather, requirements, uses
from modelplane.compose.replica_references import KEY_PREFIXES, copies
from modelplane.compose.routes import takes_lists
from modelplane.compose.transitions import transitions
from modelplane.compose.volumes import volumes_of
from modelplane.compose.workload_status import has_status, mentions, rolled_out, same_stamp

_REPLACED = (KEY_PREFIX, DOMAIN_PREFIX, "picker-config-", *KEY_PREFIXES)


def compose(request: ComposeRequest[ModelReplica]) -> ComposeResult:
    inputs = gather(request)
    desired, accepted = _desired(request, inputs)
    cause = workload_cause(request, desired, inputs)
    conditions = (
        accepted,
        inputs.scheduled,
        inputs.caches_ready,
        _secrets_condition(inputs),
        workload_condition(cause),
        route_condition(request, desired, inputs, available=cause is None),
    )
    replica = request.resource
    ready = summarise(conditions)
    status = msgspec.structs.replace(
        replica_status(replica, conditions, ready, cause, request.now),
        address=inputs.address,
        listed=_listed(request),
        served_generation=_served_generation(request, desired, conditions),
    )
    return ComposeResult(
        desired=desired,
        status=status,
        conditions=conditions,
        ready=ready,
        events=transitions(replica.status.conditions, conditions),
        requirements=requirements(replica, inputs.cluster),
        uses=uses(replica),
    )


def _secrets_condition(inputs: ReplicaInputs) -> Condition:
    """Copies cannot be seen on a cluster that does not answer: that it is lost is the reason, and nothing is copied."""
    found = inputs.references.condition
    if inputs.lost is None or found.reason != Reason.SECRETS_COPYING:
        return found
    return fails(ConditionType.SECRETS_READY, inputs.lost.reason, inputs.lost.message)


def _desired(request: ComposeRequest[ModelReplica], inputs: ReplicaInputs) -> tuple[dict[str, Desired], Condition]:
    if inputs.cluster is None or inputs.caches is None:
        waiting = "the cluster or a cache is missing; running pods stay"
        return keep_observed(request), unknown(ConditionType.ACCEPTED, Reason.UNRESOLVED, waiting)
    try:
        volumes = volumes_of(request.resource.spec.caches, inputs.caches)
        given = Context(request.resource, inputs.cluster, volumes, is_listed=not request.embedded)
        context, desired, rendered = _rendered(request, given)
    except RenderError as error:
        where = f"cluster {request.resource.spec.cluster_name}: " if isinstance(error, ClusterRenderError) else ""
        problem = fails(ConditionType.ACCEPTED, error.reason, f"{where}{error}; running pods stay")
        return keep_observed(request), problem
    desired = _with_copies(desired, copies(context, request, inputs.references, tuple(rendered.workloads)))
    current = {
        key: replace(item, ready=_seen_ready(request, key))
        for key, item in _started(request, inputs, desired, rendered).items()
    }
    return {**_superseded(request, desired), **current}, holds(ConditionType.ACCEPTED, Reason.ACCEPTED)


def _rendered(request: ComposeRequest[ModelReplica], bare: Context) -> tuple[Context, dict[str, Desired], Rendered]:
    """With the newest images and defaults of ours, unless those alone would change pods that run."""
    newest = replace(bare, images=request.images.for_cluster(bare.cluster))
    workloads = [item.manifest for key, item in request.observed.items() if key.startswith(WORKLOAD)]
    for context in _as_it_may_run(newest, workloads):
        desired, rendered = render(context)
        if all(_has_spec(request.observed.get(key), desired[key]) for key in rendered.workloads):
            return context, desired, rendered
    return newest, *render(newest)


def _as_it_may_run(newest: Context, workloads: list[Manifest]) -> Iterator[Context]:
    """How the workloads that were observed may have been rendered, by this release or an earlier one."""
    if not workloads:
        return
    kept = replace(newest, images=kept_images(newest.cluster, newest.images, workloads))
    yield kept
    if newest.disaggregated:
        yield replace(kept, earlier_defaults=True)


def _with_copies(desired: dict[str, Desired], copied: dict[str, Desired]) -> dict[str, Desired]:
    """Copies come before the workloads that need them, and after the namespace that they are in."""
    return {NAMESPACE: desired[NAMESPACE], **copied, **desired}


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
    users = [request.observed.get(key) for key in {**request.observed, **desired} if _is_user(key)]
    outlives = tuple(key for key in desired if _is_user(key))
    return {
        key: Desired(seen.target, seen.ready, outlives)
        for key, seen in old.items()
        if any(_needs(user, name_of(seen.manifest)) for user in users)
    }


def _is_user(key: str) -> bool:
    return key.startswith(WORKLOAD) or key == PICKER


def _needs(user: Observed | None, name: str) -> bool:
    """Whether pods of a workload may refer to an object. One that is not observed or lost its status does not say."""
    if user is None or not has_status(user.manifest):
        return True
    return not rolled_out(user.manifest) or mentions(user.manifest, name)


def _listed(request: ComposeRequest[ModelReplica]) -> bool | None:
    """Once its route takes lists it goes on to: a view that lacks the route takes nothing back."""
    seen = request.observed.get(ROUTE)
    there = seen is not None and seen.ready and takes_lists(request.resource, seen.manifest)
    return request.resource.status.listed or there or None


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
    if not key.startswith(WORKLOAD):
        return True
    seen = request.observed.get(key)
    return seen is not None and _has_spec(seen, item) and rolled_out(seen.manifest)


def _has_spec(seen: Observed | None, item: Desired) -> bool:
    """Whether a workload that was observed has the spec that it should have."""
    return seen is not None and isinstance(item.target, Remote) and same_stamp(item.target.manifest, seen.manifest)
