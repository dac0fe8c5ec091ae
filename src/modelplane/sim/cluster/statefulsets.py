"""StatefulSets: pods with numbers and names of their own, made and replaced in parallel.

Pods keep their number: `<set>-<n>`, from `spec.ordinals.start` on. Pods below the partition of a rolling update stay on
the revision that was current before it, and come back on it; ControllerRevisions remember its template. Others are
replaced from the highest number down, `maxUnavailable` at a time.

Not modelled: ordered creation (`OrderedReady`), volume claim templates, `OnDelete`.
"""

from collections.abc import Iterable, Mapping

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, is_about, owned
from modelplane.sim.cluster.deployment_status import replicas_of
from modelplane.sim.cluster.deployments import APPS, template_hash
from modelplane.sim.cluster.lws_pods import admitted
from modelplane.sim.cluster.objects import condition_is, controller_of, controller_reference
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.resource_quotas import quota_refusal
from modelplane.sim.cluster.rollout import scaled

REVISION_HASH = "controller-revision-hash"
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"
_RETRY_S = 15.0
_SOURCE = "statefulset-controller"


class StatefulSets:
    """Keeps the pods of one StatefulSet, and its status."""

    name = "statefulsets"
    kinds = frozenset({(APPS, "StatefulSet"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, APPS, "StatefulSet"):
            return (change.ref,)
        if is_about(change, "", "Pod"):
            return owned(change, "StatefulSet")
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        item = self._store.get(ref)
        if item is None or is_deleting(item):
            return Done()
        update = revision_name(item)
        current = text_at(item, "status", "currentRevision") or update
        self._remember(item, update)
        complete = self._make_missing(item, current, update)
        self._drop_surplus(item)
        self._replace_outdated(item, update)
        self._report(item, current, update)
        return Done() if complete else RequeueAfter(_RETRY_S)

    def _pods(self, item: Manifest) -> dict[int, Manifest]:
        """By number. All of them, also those that go."""
        labels = {key: str(value) for key, value in mapping_at(item, "spec", "selector", "matchLabels").items()}
        found = self._store.list("", "Pod", namespace=namespace_of(item), labels=labels)
        return {number_of(pod): pod for pod in found if controller_of(pod).get("uid") == uid_of(item)}

    def _make_missing(self, item: Manifest, current: str, update: str) -> bool:
        """Create pods until a ResourceQuota forbids one; whether all were created."""
        pods = self._pods(item)
        start = _start(item)
        for number in _numbers(item):
            if number in pods:
                continue
            revision = update if number - start >= _partition(item) else current
            if self._store.get(ObjectRef("", "Pod", namespace_of(item), f"{name_of(item)}-{number}")) is None:
                pod = admitted(self._pod(item, number, revision))
                refusal = quota_refusal(self._store, pod)
                if refusal is not None:
                    message = f"create Pod {name_of(pod)} in StatefulSet {name_of(item)} failed error: {refusal}"
                    warn(self._context, item, "FailedCreate", message, source=_SOURCE)
                    return False
                self._store.create(pod)
        return True

    def _drop_surplus(self, item: Manifest) -> None:
        wanted = _numbers(item)
        for number, pod in self._pods(item).items():
            if (number not in wanted or is_finished(pod)) and not is_deleting(pod):
                self._store.delete(ref_of(pod))

    def _replace_outdated(self, item: Manifest, update: str) -> None:
        pods = self._pods(item)
        budget = max(1, scaled(_rolling(item).get("maxUnavailable", 1), replicas_of(item), up=False))
        first = _start(item) + _partition(item)
        for number in reversed(_numbers(item)):
            pod = pods.get(number)
            if number < first or budget <= 0:
                return
            if pod is not None and _revision_of(pod) != update and not is_deleting(pod):
                self._store.delete(ref_of(pod))
                budget -= 1
            elif pod is None or not is_healthy(pod):
                budget -= 1

    def _pod(self, item: Manifest, number: int, revision: str) -> Json:
        template = self._template(item, revision)
        name = f"{name_of(item)}-{number}"
        labels = {**labels_of(template), REVISION_HASH: revision, _POD_NAME: name, _POD_INDEX: str(number)}
        metadata = {
            **mapping_at(template, "metadata"),
            "name": name,
            "namespace": namespace_of(item),
            "labels": labels,
            "ownerReferences": [controller_reference(item)],
        }
        spec = {**mapping_at(template, "spec"), "hostname": name, "subdomain": text_at(item, "spec", "serviceName")}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def _template(self, item: Manifest, revision: str) -> Mapping[str, object]:
        kept = self._store.get(ObjectRef(APPS, "ControllerRevision", namespace_of(item), revision))
        return mapping_at(kept or item, "data" if kept is not None else "spec", "template")

    def _remember(self, item: Manifest, revision: str) -> None:
        if self._store.get(ObjectRef(APPS, "ControllerRevision", namespace_of(item), revision)) is not None:
            return
        data = {"template": mapping_at(item, "spec", "template")}
        made = manifest("apps/v1", "ControllerRevision", revision, namespace=namespace_of(item), data=data, revision=1)
        self._store.create(with_metadata(made, ownerReferences=[controller_reference(item)]))

    def _forget(self, item: Manifest, used: set[str]) -> None:
        for kept in self._store.list(APPS, "ControllerRevision", namespace=namespace_of(item)):
            if controller_of(kept).get("uid") == uid_of(item) and name_of(kept) not in used:
                self._store.delete(ref_of(kept))

    def _report(self, item: Manifest, current: str, update: str) -> None:
        pods = {number: pod for number, pod in self._pods(item).items() if not is_finished(pod)}
        ready = [pod for pod in pods.values() if is_healthy(pod)]
        updated = [pod for pod in pods.values() if _revision_of(pod) == update and not is_deleting(pod)]
        if len(updated) == len(ready) == len(pods) == replicas_of(item):
            current = update
        status: Json = {
            "observedGeneration": int_at(item, "metadata", "generation"),
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready),
            "currentReplicas": sum(_revision_of(pod) == current and not is_deleting(pod) for pod in pods.values()),
            "updatedReplicas": len(updated),
            "currentRevision": current,
            "updateRevision": update,
        }
        self._store.replace_status({**item, "status": status})
        self._forget(item, {current, update})


def is_healthy(pod: Manifest) -> bool:
    """Running, ready and not on its way out."""
    return text_at(pod, "status", "phase") == "Running" and condition_is(pod, "Ready") and not is_deleting(pod)


def is_whole(item: Manifest) -> bool:
    """Whether every pod of a StatefulSet is there, available and of its newest revision."""
    revisions = text_at(item, "status", "currentRevision"), text_at(item, "status", "updateRevision")
    return replicas_of(item) == int_at(item, "status", "availableReplicas") and revisions[0] == revisions[1]


def revision_name(item: Manifest) -> str:
    return f"{name_of(item)}-{template_hash(item)}"


def number_of(pod: Manifest) -> int:
    """The number at the end of a pod's name."""
    tail = name_of(pod).rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def _revision_of(pod: Manifest) -> str:
    return labels_of(pod).get(REVISION_HASH, "")


def _start(item: Manifest) -> int:
    return int_at(item, "spec", "ordinals", "start")


def _numbers(item: Manifest) -> range:
    return range(_start(item), _start(item) + replicas_of(item))


def _rolling(item: Manifest) -> Mapping[str, object]:
    return mapping_at(item, "spec", "updateStrategy", "rollingUpdate")


def _partition(item: Manifest) -> int:
    return int_at(_rolling(item), "partition")
