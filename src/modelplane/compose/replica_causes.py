"""Why a ModelReplica does not serve: from its cluster, its workloads, their pods and its route, the worst cause."""

from collections.abc import Iterable, Mapping, Sequence

from modelplane.api.conditions import Condition, ConditionStatus, ConditionType, fails, holds, unknown
from modelplane.api.meta import Timestamp
from modelplane.api.models import ModelReplica, ModelReplicaStatus
from modelplane.api.objects import Manifest, name_of
from modelplane.api.reasons import Reason
from modelplane.api.timestamps import timestamp
from modelplane.compose.admission_causes import admission_cause, queue_cause
from modelplane.compose.causes import Cause, in_words
from modelplane.compose.contract import ComposeRequest, Desired, Remote
from modelplane.compose.gang.gang_metadata import LOCAL_QUEUE
from modelplane.compose.picker import PICKER
from modelplane.compose.pod_causes import by_engine, pods_cause, scheduling_reason
from modelplane.compose.readiness import SERVING, is_ready, route_problem
from modelplane.compose.replica_inputs import ReplicaInputs, admissions_of, pods_are_observed, pods_of
from modelplane.compose.workload_status import gave_up, progress, rejection

WORKLOAD = "workload-"
_ROUTE = "route"
_MAX_STATUS = 1024
_NOT_KNOWN = frozenset({Reason.AGENT_DISCONNECTED, Reason.AGENT_UNKNOWN, Reason.UNRESOLVED})
_BEFORE_SCHEDULING = frozenset({Reason.SCHEDULING_GATED, Reason.WORKLOAD_STARTING})


def workload_cause(
    request: ComposeRequest[ModelReplica], desired: Mapping[str, Desired], inputs: ReplicaInputs
) -> Cause | None:
    """Why its pods do not serve; None where every workload is available."""
    workloads = {key: item for key, item in desired.items() if key.startswith(WORKLOAD)}
    if not workloads:
        if inputs.caches_ready.status is not ConditionStatus.TRUE:
            return Cause(Reason.WAITING_FOR_CACHES, inputs.caches_ready.message)
        if not inputs.references.found:
            return Cause(Reason.WAITING_FOR_SECRETS, inputs.references.condition.message)
        return inputs.lost or Cause(Reason.CREATING, "the workload is not created yet")
    waiting = [key for key, item in workloads.items() if not item.ready]
    if not waiting:
        return None
    seen = [request.observed[key].manifest for key in waiting if key in request.observed]
    unread = _unread(request, waiting, inputs)
    if inputs.lost is not None or unread is not None:
        return inputs.lost or unread
    engines, _ = by_engine(pods_of(request))
    refused = _rejected(seen) or _refused(request, desired)
    return refused or _waiting(request, engines, seen) or _stopped(seen) or _starting(request, seen)


def _unread(request: ComposeRequest[ModelReplica], waiting: Iterable[str], inputs: ReplicaInputs) -> Cause | None:
    """Where a tunnel carries to the cluster and objects cannot be read: as they were read last, they are ready."""
    seen = [request.observed[key] for key in waiting if key in request.observed]
    stale = any(isinstance(item.target, Remote) and is_ready(item.manifest, item.target.ready_when) for item in seen)
    if inputs.by_agent is None or not (stale or inputs.by_agent.reason is Reason.AGENT_DISCONNECTED):
        return None
    return inputs.by_agent


def _refused(request: ComposeRequest[ModelReplica], desired: Mapping[str, Desired]) -> Cause | None:
    """The cluster refuses an object: by a webhook, a policy, a right that is missing or a kind that it lacks."""
    seen = ((key, request.observed[key]) for key in desired if key in request.observed)
    found = [(not key.startswith(WORKLOAD), item) for key, item in seen if item.refused]
    if not found:
        return None
    item = min(found, key=lambda each: each[0])[1]
    reason = scheduling_reason(item.refused)
    known = reason in {Reason.QUEUE_MISSING, Reason.QUOTA_EXCEEDED}
    name = name_of(item.manifest)
    # An API server names the object itself, and what it says is cut where it is long.
    named = "" if name in item.refused else f"{item.manifest.get('kind')} {name} is refused: "
    return Cause(reason if known else Reason.WORKLOAD_FAILED, in_words(f"{named}{item.refused}"))


def _waiting(
    request: ComposeRequest[ModelReplica], pods: Sequence[Manifest], workloads: Sequence[Manifest]
) -> Cause | None:
    """The cause of the pods; where they wait to be admitted, the words of the queue."""
    cause = pods_cause(pods)
    if cause is not None and cause.reason not in _BEFORE_SCHEDULING:
        return cause
    admission = admission_cause(admissions_of(request), [name_of(item) for item in (*pods, *workloads)])
    local = request.observed.get(LOCAL_QUEUE)
    queue = queue_cause(local.manifest) if local is not None else None
    # What a Workload says may be old: Kueue writes nothing on it while the queue is missing.
    missing = (each for each in (admission, queue) if each is not None and each.reason is Reason.QUEUE_MISSING)
    return next(missing, None) or admission or cause


def _rejected(workloads: Iterable[Manifest]) -> Cause | None:
    """The cluster creates no pods: a quota, a policy, or a class that is missing."""
    for item in workloads:
        found = rejection(item)
        if found is not None:
            message, since = found
            reason = scheduling_reason(message)
            return Cause(
                reason if reason is Reason.QUOTA_EXCEEDED else Reason.WORKLOAD_FAILED, in_words(message), since
            )
    return None


def _stopped(workloads: Iterable[Manifest]) -> Cause | None:
    for item in workloads:
        found = gave_up(item)
        if found is not None:
            message, since = found
            return Cause(Reason.WORKLOAD_FAILED, in_words(message), since)
    return None


def _starting(request: ComposeRequest[ModelReplica], workloads: Sequence[Manifest]) -> Cause:
    if not workloads:
        return Cause(Reason.WORKLOAD_STARTING, "the workload is not observed yet")
    unseen = () if pods_are_observed(request) else ("its pods are not observed",)
    words = "; ".join((*(progress(item) for item in workloads), *unseen))
    return Cause(Reason.WORKLOAD_STARTING, in_words(words))


def workload_condition(cause: Cause | None) -> Condition:
    if cause is None:
        return holds(ConditionType.WORKLOAD_READY, Reason.WORKLOAD_AVAILABLE)
    return _not_held(ConditionType.WORKLOAD_READY, cause)


def _not_held(kind: ConditionType, cause: Cause) -> Condition:
    """What cannot be read is neither: an endpoint that is Unknown keeps its requests."""
    return (unknown if cause.reason in _NOT_KNOWN else fails)(kind, cause.reason, cause.message)


def route_condition(
    request: ComposeRequest[ModelReplica], desired: Mapping[str, Desired], inputs: ReplicaInputs, *, available: bool
) -> Condition:
    """`available`: its pods serve, so that a route which is rejected will not pass by itself."""
    kind = ConditionType.ROUTE_READY
    if inputs.address is None:
        if inputs.cluster is None:
            return unknown(kind, Reason.UNRESOLVED, inputs.scheduled.message)
        return fails(kind, Reason.WAITING_FOR_GATEWAY, "the cluster's gateway has no address")
    needed = [key for key in (_ROUTE, PICKER) if key in desired]
    waiting = [key for key in needed if not desired[key].ready]
    if needed and not waiting:
        return holds(kind, Reason.ROUTE_CONFIGURED, inputs.address)
    away = inputs.lost or _unread(request, waiting, inputs)
    if away is not None:
        return _not_held(kind, away)
    _, beside = by_engine(pods_of(request))
    picker = pods_cause(beside) if PICKER in waiting else None
    if picker is not None:
        return fails(kind, picker.reason, f"picker: {picker.message}")
    rejected = route_problem(request.observed[_ROUTE].manifest) if _ROUTE in request.observed else None
    if _ROUTE in waiting and rejected:
        return fails(kind, Reason.ROUTE_REJECTED if available else Reason.ROUTE_PENDING, in_words(rejected))
    return fails(kind, Reason.ROUTE_PENDING, f"not ready: {', '.join(waiting) or _ROUTE}")


def replica_status(
    replica: ModelReplica, conditions: Iterable[Condition], ready: Condition, cause: Cause | None, now: float
) -> ModelReplicaStatus:
    """The reason in one word, its words, and since when. `cause` is that of the workload, which may say since when."""
    held = {condition.type for condition in conditions if condition.status is ConditionStatus.TRUE}
    serving = held >= SERVING
    reason = Reason.SERVING.value if serving else str(ready.reason)
    known = cause.since if cause is not None and not serving and cause.reason == reason else None
    return ModelReplicaStatus(
        reason=reason,
        message=None if serving and ready.status is ConditionStatus.TRUE else ready.message[:_MAX_STATUS] or None,
        since=known or _since(replica, reason, now),
    )


def _since(replica: ModelReplica, reason: str, now: float) -> Timestamp | None:
    before = replica.status
    if before.reason == reason and before.since:
        return Timestamp(before.since)
    return timestamp(now) if now else None
