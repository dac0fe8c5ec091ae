"""ReplicaSets: the desired number of pods, and the count of ready ones.

Pods that are being deleted or have ended do not count. When there are too many, the real controller's order says which
go first: not bound, not running, not ready, sharing a node with most siblings, youngest. Its rounding of ages to powers
of two, and its random choice there, is left out: names break ties.

A pod that a ResourceQuota forbids is reported by an Event and the condition ReplicaFailure, and tried again later.
"""

from collections import Counter
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
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about, owned
from modelplane.sim.cluster.deployment_status import replicas_of
from modelplane.sim.cluster.deployments import APPS
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import (
    condition_is,
    condition_of,
    controller_of,
    controller_reference,
    merged_conditions,
    seconds_of,
)
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.resource_quotas import quota_refusal

_RETRY_S = 15.0
_SOURCE = "replicaset-controller"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets:
    """Makes and deletes pods of one ReplicaSet."""

    name = "replicasets"
    kinds = frozenset({(APPS, "ReplicaSet"), ("", "Pod"), ("", "ResourceQuota")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, APPS, "ReplicaSet"):
            return (change.ref,)
        if is_about(change, "", "Pod") and changed(change, _facts):
            return owned(change, "ReplicaSet")
        if is_about(change, "", "ResourceQuota"):
            return [ref_of(item) for item in self._store.list(APPS, "ReplicaSet", namespace=change.ref.namespace)]
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        replica_set = self._store.get(ref)
        if replica_set is None or is_deleting(replica_set):
            return Done()
        pods = self._pods(replica_set)
        active = [pod for pod in pods if not is_deleting(pod) and not is_finished(pod)]
        missing = replicas_of(replica_set) - len(active)
        refusal = self._create(replica_set, missing)
        for pod in _first_to_go(active)[: max(0, -missing)]:
            self._store.delete(ref_of(pod))
        outcome = self._report(replica_set, refusal)
        return outcome if refusal is None or isinstance(outcome, RequeueAfter) else RequeueAfter(_RETRY_S)

    def _create(self, replica_set: Manifest, missing: int) -> str | None:
        """Create pods until one is refused; why it is."""
        for _ in range(missing):
            pod = _pod(replica_set)
            refusal = quota_refusal(self._store, pod)
            if refusal is not None:
                warn(self._context, replica_set, "FailedCreate", f"Error creating: {refusal}", source=_SOURCE)
                return refusal
            self._store.create(pod)
        return None

    def _pods(self, replica_set: Manifest) -> list[Manifest]:
        labels = {key: str(value) for key, value in mapping_at(replica_set, "spec", "selector", "matchLabels").items()}
        pods = self._store.list("", "Pod", namespace=namespace_of(replica_set), labels=labels)
        return [pod for pod in pods if controller_of(pod).get("uid") == uid_of(replica_set)]

    def _report(self, replica_set: Manifest, refusal: str | None) -> Outcome:
        pods = self._pods(replica_set)
        active = [pod for pod in pods if not is_deleting(pod) and not is_finished(pod)]
        ready = [pod for pod in active if condition_is(pod, "Ready")]
        waits = [self._until_available(replica_set, pod) for pod in ready]
        counts = {
            "observedGeneration": int_at(replica_set, "metadata", "generation"),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": len(ready),
            "availableReplicas": sum(wait <= 0 for wait in waits),
        }
        shown: Json = {field: count for field, count in counts.items() if count}
        terminating = sum(is_deleting(pod) and not is_finished(pod) for pod in pods)
        status = {"replicas": len(active), **shown, "terminatingReplicas": terminating}
        if refusal is not None:
            failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refusal}
            known = items_at(replica_set, "status", "conditions")
            status["conditions"] = merged_conditions(known, [failed], self._context.clock.now())
        self._store.replace_status({**replica_set, "status": status})
        left = [wait for wait in waits if wait > 0]
        return RequeueAfter(min(left)) if left else Done()

    def _until_available(self, replica_set: Manifest, pod: Manifest) -> float:
        least = int_at(replica_set, "spec", "minReadySeconds")
        if not least:
            return 0.0
        since = seconds_of(str(condition_of(pod, "Ready").get("lastTransitionTime")))
        return since + least - self._context.clock.now()


def _facts(pod: Manifest) -> object:
    """What the number of pods and the status depend on; what decides who goes first is read when one has to."""
    return labels_of(pod), is_deleting(pod), is_finished(pod), condition_of(pod, "Ready"), controller_of(pod)


def _first_to_go(pods: Sequence[Manifest]) -> list[Manifest]:
    """The pods in the order in which they are deleted."""
    together = Counter(node_of(pod) for pod in pods if condition_is(pod, "Ready"))

    def rank(pod: Manifest) -> tuple[object, ...]:
        ready = condition_is(pod, "Ready")
        return (
            bool(node_of(pod)),
            _PHASES.get(text_at(pod, "status", "phase"), 0),
            ready,
            -together[node_of(pod)],
            -seconds_of(str(condition_of(pod, "Ready").get("lastTransitionTime"))) if ready else 0,
            -max((int_at(entry, "restartCount") for entry in items_at(pod, "status", "containerStatuses")), default=0),
            -seconds_of(text_at(pod, "metadata", "creationTimestamp")),
            name_of(pod),
        )

    return sorted(pods, key=rank)


def _pod(replica_set: Manifest) -> Json:
    template = mapping_at(replica_set, "spec", "template")
    metadata = {
        **mapping_at(template, "metadata"),
        "generateName": f"{name_of(replica_set)}-",
        "namespace": namespace_of(replica_set),
        "ownerReferences": [controller_reference(replica_set)],
    }
    spec = value_at(template, "spec")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
