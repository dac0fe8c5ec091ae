"""Jobs: pods that run to completion, and the status of the Job.

Failed pods are recreated with a growing back-off, up to the back-off limit. An exit code that the podFailurePolicy
names with FailJob fails the Job at once. A suspended Job has no pods. A finished Job is deleted after its
ttlSecondsAfterFinished. Not modelled: indexes, success policies, other rules of failure policies, deadlines.
"""

from collections.abc import Iterable, Sequence

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, is_about, owned
from modelplane.sim.cluster.garbage import delete_in_foreground
from modelplane.sim.cluster.objects import (
    condition_is,
    condition_of,
    controller_reference,
    merged_conditions,
    seconds_of,
    with_status,
)

BATCH = "batch"
_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_BACKOFF_S, _BACKOFF_MOST_S = 10.0, 600.0


class Jobs:
    """Makes and counts the pods of one Job."""

    name = "jobs"
    kinds = frozenset({(BATCH, "Job"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, BATCH, "Job"):
            return (change.ref,)
        if is_about(change, "", "Pod"):
            return owned(change, "Job")
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        job = self._store.get(ref)
        if job is None or is_deleting(job):
            return Done()
        if is_done(job):
            return self._expire(job)
        pods = self._pods(job)
        wait = self._run(job, pods)
        self._report(job, self._pods(job))
        return RequeueAfter(wait) if wait else Done()

    def _pods(self, job: Manifest) -> list[Manifest]:
        labels = {_LABELS[0]: uid_of(job)}
        return list(self._store.list("", "Pod", namespace=namespace_of(job), labels=labels))

    def _run(self, job: Manifest, pods: Sequence[Manifest]) -> float:
        """Make the pods that are missing or remove those that are too many; how long to wait before making one."""
        active = [pod for pod in pods if not is_finished(pod) and not is_deleting(pod)]
        failed = [pod for pod in pods if text_at(pod, "status", "phase") == "Failed"]
        succeeded = sum(text_at(pod, "status", "phase") == "Succeeded" for pod in pods)
        wanted = min(int_at(job, "spec", "parallelism", default=1), _completions(job) - succeeded)
        if value_at(job, "spec", "suspend") is True or len(failed) > _limit(job) or _fatal(job, failed) is not None:
            wanted = 0
        for pod in active[max(wanted, 0) :]:
            self._store.delete(ref_of(pod))
        missing = wanted - len(active)
        wait = self._backoff_s(failed) if missing > 0 else 0.0
        for _ in range(missing if not wait else 0):
            self._store.create(_pod(job))
        return wait

    def _backoff_s(self, failed: Sequence[Manifest]) -> float:
        """How long until the next pod may be made after those that failed."""
        if not failed:
            return 0.0
        last = max(seconds_of(str(condition_of(pod, "Ready").get("lastTransitionTime"))) for pod in failed)
        due = last + min(_BACKOFF_S * (1 << min(len(failed) - 1, 10)), _BACKOFF_MOST_S)
        return max(0.0, due - self._context.clock.now())

    def _report(self, job: Manifest, pods: Sequence[Manifest]) -> None:
        now = self._context.clock.now()
        phases = [text_at(pod, "status", "phase") for pod in pods]
        active = [pod for pod in pods if not is_finished(pod) and not is_deleting(pod)]
        suspended = value_at(job, "spec", "suspend") is True
        counts = {
            "active": len(active),
            "succeeded": phases.count("Succeeded"),
            "failed": phases.count("Failed"),
            "ready": sum(condition_is(pod, "Ready") for pod in active),
        }
        failed = [pod for pod in pods if text_at(pod, "status", "phase") == "Failed"]
        wanted = _conditions(job, counts, _fatal(job, failed), suspended=suspended)
        known = list(items_at(job, "status", "conditions"))
        status: Json = {field: count for field, count in counts.items() if count or field == "ready"}
        status["startTime"] = text_at(job, "status", "startTime") or timestamp(now)
        if suspended:
            del status["startTime"]
        if wanted or known:
            status["conditions"] = merged_conditions(known, wanted, now)
        if any(condition["type"] == "Complete" for condition in wanted):
            status["completionTime"] = timestamp(now)
        self._store.replace_status({**job, "status": status})

    def _expire(self, job: Manifest) -> Outcome:
        """Delete it after ttlSecondsAfterFinished. Running pods of a failed Job are deleted at once."""
        for pod in self._pods(job):
            if not is_finished(pod) and not is_deleting(pod):
                self._store.delete(ref_of(pod))
        active = int_at(job, "status", "active")
        if active:
            self._store.replace_status(with_status(job, active=0))
        limit = value_at(job, "spec", "ttlSecondsAfterFinished")
        if not isinstance(limit, int):
            return Done()
        ended = condition_of(job, "Complete") or condition_of(job, "Failed")
        left = seconds_of(str(ended.get("lastTransitionTime"))) + limit - self._context.clock.now()
        if left > 0:
            return RequeueAfter(left)
        delete_in_foreground(self._store, self._store.get(ref_of(job)) or job)
        return Done()


def is_done(job: Manifest) -> bool:
    return condition_is(job, "Complete") or condition_is(job, "Failed")


def _completions(job: Manifest) -> int:
    return int_at(job, "spec", "completions", default=1)


def _limit(job: Manifest) -> int:
    return int_at(job, "spec", "backoffLimit", default=6)


def _fatal(job: Manifest, failed: Iterable[Manifest]) -> str | None:
    """Why an exit code fails the Job at once, in the words of its controller."""
    for index, rule in enumerate(items_at(job, "spec", "podFailurePolicy", "rules")):
        codes = value_at(rule, "onExitCodes", "values")
        if rule.get("action") != "FailJob" or not isinstance(codes, list):
            continue
        for pod in failed:
            for container in items_at(pod, "status", "containerStatuses"):
                code = value_at(container, "state", "terminated", "exitCode")
                if code in codes and text_at(rule, "onExitCodes", "containerName") in {"", container.get("name")}:
                    where = f"{namespace_of(pod)}/{name_of(pod)}"
                    ended = f"Container {container.get('name')} for pod {where} failed with exit code {code}"
                    return f"{ended} matching FailJob rule at index {index}"
    return None


def _conditions(job: Manifest, counts: dict[str, int], fatal: str | None, *, suspended: bool) -> list[Json]:
    if counts["succeeded"] >= _completions(job):
        words = {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
        return [{"type": kind, "status": "True", **words} for kind in ("SuccessCriteriaMet", "Complete")]
    if fatal is not None:
        words = {"reason": "PodFailurePolicy", "message": fatal}
        return [{"type": kind, "status": "True", **words} for kind in ("FailureTarget", "Failed")]
    if counts["failed"] > _limit(job):
        words = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
        return [{"type": kind, "status": "True", **words} for kind in ("FailureTarget", "Failed")]
    known = condition_of(job, "Suspended")
    if suspended:
        return [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]
    if known:
        return [{"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}]
    return []


def _pod(job: Manifest) -> Json:
    template = mapping_at(job, "spec", "template")
    own = {**dict.fromkeys(_LABELS, uid_of(job)), **dict.fromkeys(_NAMES, name_of(job))}
    metadata = {
        **mapping_at(template, "metadata"),
        "labels": {**labels_of({"metadata": mapping_at(template, "metadata")}), **own},
        "generateName": f"{name_of(job)}-",
        "namespace": namespace_of(job),
        "ownerReferences": [controller_reference(job)],
    }
    spec = {**mapping_at(template, "spec")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
