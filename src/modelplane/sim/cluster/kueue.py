"""Kueue: admits workloads by quota, and holds back the pods of those that it did not admit.

What it manages carries the label `kueue.x-k8s.io/queue-name`: a LeaderWorkerSet is one workload for each of its groups,
a Job is one, and each pod of a Deployment is one. Workloads are ordered by priority and age; under StrictFIFO one that
does not fit blocks those behind it. A workload that was admitted stays so until it is gone: pods
that take the place of others in its group pass at once. Its pods carry a scheduling gate until then, and get the node
labels and tolerations of their flavors when it goes. Where they run is kube-scheduler's business, one pod at a time.

Gates are written on the pods by whoever renders them; the webhook that adds them is not modelled, nor are preemption,
cohorts, topologies and admission checks. Without a ClusterQueue there is no Kueue, and gates stay. That the queue of a
workload does not exist is said of the workload as well; Kueue 0.19 says it of the LocalQueue alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, changed
from modelplane.sim.cluster.demand import Demand, demand_of
from modelplane.sim.cluster.deployments import APPS, digest_of
from modelplane.sim.cluster.kueue_quota import KUEUE, Fits, Lacks, Quotas, inactive, node_rules, usage
from modelplane.sim.cluster.lws import KIND, LWS_GROUP
from modelplane.sim.cluster.lws_pods import GROUP_INDEX, SET_NAME
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.objects import (
    condition_is,
    controller_ref,
    controller_reference,
    merged_conditions,
    with_spec,
    with_status,
)

GATE = "kueue.x-k8s.io/admission"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_API = "kueue.x-k8s.io/v1beta2"
_KINDS = {"ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload", "WorkloadPriorityClass"}
_MANAGED = {(LWS_GROUP, KIND), (APPS, "Deployment"), ("batch", "Job")}


@dataclass(frozen=True, slots=True)
class _Unit:
    """What becomes one Workload."""

    name: str
    queue: str
    owner: Manifest
    demand: Demand
    counts: tuple[tuple[str, int], ...]
    """Its pod sets: name and number of pods."""
    group: str | None = None
    """Of a LeaderWorkerSet: which group."""


class Kueue:
    """One key for the whole cluster: all pending workloads."""

    name = "kueue"
    kinds = frozenset({*((KUEUE, kind) for kind in _KINDS), *_MANAGED, ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self.key = ObjectRef(KUEUE, "Workload", "", "")

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        ref = change.ref
        if ref.group == KUEUE and ref.kind in _KINDS:
            return (self.key,) if changed(change, _stated) else ()
        managed = (ref.group, ref.kind) in _MANAGED and QUEUE_NAME in labels_of(change.manifest)
        if managed and changed(change, _stated):
            return (self.key,)
        pod = (ref.group, ref.kind) == ("", "Pod") and changed(change, _pod_facts)
        return (self.key,) if pod and self._is_there() else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        if not self._is_there():
            return Done()
        units = {(namespace_of(unit.owner), unit.name): unit for unit in self._units()}
        for known in self._store.list(KUEUE, "Workload"):
            if (namespace_of(known), name_of(known)) not in units:
                self._store.delete(ref_of(known))
        workloads = [(self._workload(unit), unit) for unit in units.values()]
        quotas = Quotas(self._store)
        self._admit(sorted(workloads, key=self._order), quotas)
        self._report(quotas)
        return Done()

    def _is_there(self) -> bool:
        return bool(self._store.list(KUEUE, "ClusterQueue"))

    def _units(self) -> Iterator[_Unit]:
        for item in self._store.list(LWS_GROUP, KIND):
            if QUEUE_NAME in labels_of(item) and not is_deleting(item):
                yield from self._groups(item)
        for item in self._store.list("batch", "Job"):
            if QUEUE_NAME in labels_of(item) and not is_deleting(item) and not _is_done(item):
                yield from self._of_job(item)
        for pod in self._store.list("", "Pod"):
            queue = self._queue_of(pod)
            if queue and not is_finished(pod) and not is_deleting(pod):
                yield from self._of_pod(pod, queue)

    def _groups(self, item: Manifest) -> Iterator[_Unit]:
        template = mapping_at(item, "spec", "leaderWorkerTemplate")
        size = int_at(template, "size", default=1)
        worker = self._demand(item, mapping_at(template, "workerTemplate", "spec"))
        leader = (
            self._demand(item, mapping_at(template, "leaderTemplate", "spec"))
            if "leaderTemplate" in template
            else worker
        )
        if leader is None or worker is None:
            return
        total = leader + Counter({name: count * (size - 1) for name, count in worker.items()})
        counts = (("leader", 1), ("worker", size - 1)) if size > 1 else (("leader", 1),)
        for number in range(int_at(item, "spec", "replicas", default=1)):
            name = _workload_name("leaderworkerset", f"{name_of(item)}-{number}", uid_of(item))
            yield _Unit(name, labels_of(item)[QUEUE_NAME], item, total, counts, str(number))

    def _of_job(self, job: Manifest) -> Iterator[_Unit]:
        pods = int_at(job, "spec", "parallelism", default=1)
        one = self._demand(job, mapping_at(job, "spec", "template", "spec"))
        if one is not None:
            name = _workload_name("job", name_of(job), uid_of(job))
            total = Counter({resource: count * pods for resource, count in one.items()})
            yield _Unit(name, labels_of(job)[QUEUE_NAME], job, total, (("main", pods),))

    def _of_pod(self, pod: Manifest, queue: str) -> Iterator[_Unit]:
        wanted = self._demand(pod, mapping_at(pod, "spec"))
        if wanted is not None:
            yield _Unit(_workload_name("pod", name_of(pod), uid_of(pod)), queue, pod, wanted, (("main", 1),))

    def _demand(self, item: Manifest, spec: Mapping[str, object]) -> Demand | None:
        return demand_of(spec, namespace_of(item), self._store, self._context.settings.device_resources)

    def _queue_of(self, pod: Manifest) -> str:
        """The queue of a pod that is a workload by itself, or an empty text."""
        if SET_NAME in labels_of(pod):
            return ""
        own = labels_of(pod).get(QUEUE_NAME, "")
        owner = controller_ref(pod)
        if own or owner is None or owner.kind != "ReplicaSet":
            return own if owner is None or owner.kind != "Job" else ""
        above = controller_ref(self._store.get(owner) or {})
        return labels_of((self._store.get(above) if above is not None else None) or {}).get(QUEUE_NAME, "")

    def _workload(self, unit: _Unit) -> Manifest:
        ref = ObjectRef(KUEUE, "Workload", namespace_of(unit.owner), unit.name)
        known = self._store.get(ref)
        if known is not None:
            return known
        sets = [{"name": name, "count": count} for name, count in unit.counts]
        spec: Json = {"queueName": unit.queue, "podSets": sets, "priority": self._priority(unit.owner)}
        made = manifest(_API, "Workload", unit.name, namespace=ref.namespace, spec=spec)
        return self._store.create(with_metadata(made, ownerReferences=[controller_reference(unit.owner)]))

    def _priority(self, owner: Manifest) -> int:
        name = labels_of(owner).get(_PRIORITY)
        found = self._store.get(ObjectRef(KUEUE, "WorkloadPriorityClass", "", name)) if name else None
        return int_at(found, "value") if found is not None else 0

    def _order(self, entry: tuple[Manifest, _Unit]) -> tuple[object, ...]:
        workload = entry[0]
        created = text_at(workload, "metadata", "creationTimestamp")
        return -int_at(workload, "spec", "priority"), created, namespace_of(workload), name_of(workload)

    def _admit(self, workloads: Iterable[tuple[Manifest, _Unit]], quotas: Quotas) -> None:
        entries = list(workloads)
        for workload, unit in entries:
            if is_admitted(workload):
                quotas.take(_admission(workload), unit.demand)
        blocked: set[str] = set()
        for workload, unit in entries:
            if is_admitted(workload):
                self._release(unit, _admission(workload))
                continue
            verdict = quotas.judge(namespace_of(workload), unit.queue, unit.demand)
            queue = self._cluster_queue(namespace_of(workload), unit.queue)
            if isinstance(verdict, Fits) and queue not in blocked:
                quotas.take(verdict, unit.demand)
                self._store.replace_status(self._admitted(workload, unit, verdict))
                self._release(unit, verdict)
                continue
            waits = (
                verdict if isinstance(verdict, Lacks) else Lacks("Pending", "an older workload of the queue is pending")
            )
            self._store.replace_status(self._waiting(workload, waits))
            if self._is_strict(queue):
                blocked.add(queue)

    def _cluster_queue(self, namespace: str, local_queue: str) -> str:
        found = self._store.get(ObjectRef(KUEUE, "LocalQueue", namespace, local_queue))
        return text_at(found or {}, "spec", "clusterQueue")

    def _is_strict(self, queue: str) -> bool:
        found = self._store.get(ObjectRef(KUEUE, "ClusterQueue", "", queue))
        return text_at(found or {}, "spec", "queueingStrategy") == "StrictFIFO"

    def _admitted(self, workload: Manifest, unit: _Unit, fits: Fits) -> Manifest:
        assignments = [{"name": name, "count": count, "flavors": dict(fits.flavors)} for name, count in unit.counts]
        admission = {"clusterQueue": fits.cluster_queue, "podSetAssignments": assignments}
        reserved = f"Quota reserved in ClusterQueue {fits.cluster_queue}"
        wanted = [
            {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": reserved},
            {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "The workload is admitted"},
        ]
        known = items_at(workload, "status", "conditions")
        conditions = merged_conditions(known, wanted, self._context.clock.now())
        return with_status(workload, admission=admission, conditions=conditions)

    def _waiting(self, workload: Manifest, waits: Lacks) -> Manifest:
        wanted = {"type": "QuotaReserved", "status": "False", "reason": waits.reason, "message": waits.message}
        known = items_at(workload, "status", "conditions")
        return with_status(workload, conditions=merged_conditions(known, [wanted], self._context.clock.now()))

    def _release(self, unit: _Unit, fits: Fits) -> None:
        labels, tolerations = node_rules(self._store, fits.flavors.values())
        if ref_of(unit.owner).kind == "Job":
            self._store.replace(_resumed(self._store.get(ref_of(unit.owner)) or unit.owner, labels, tolerations))
            return
        for pod in self._pods(unit):
            gates = [gate for gate in items_at(pod, "spec", "schedulingGates") if gate.get("name") != GATE]
            if len(gates) == len(list(items_at(pod, "spec", "schedulingGates"))):
                continue
            selector = {**mapping_at(pod, "spec", "nodeSelector"), **labels}
            tolerated = [*items_at(pod, "spec", "tolerations"), *tolerations]
            changed_spec = with_spec(pod, nodeSelector=selector, tolerations=tolerated, schedulingGates=gates)
            self._store.replace(_without_empty(changed_spec))

    def _pods(self, unit: _Unit) -> Iterable[Manifest]:
        if unit.group is None:
            found = self._store.get(ref_of(unit.owner))
            return () if found is None else (found,)
        labels = {SET_NAME: name_of(unit.owner), GROUP_INDEX: unit.group}
        return self._store.list("", "Pod", namespace=namespace_of(unit.owner), labels=labels)

    def _report(self, quotas: Quotas) -> None:
        workloads = self._store.list(KUEUE, "Workload")
        for item in self._store.list(KUEUE, "ClusterQueue"):
            ours = [w for w in workloads if self._cluster_queue(namespace_of(w), _queue_name(w)) == name_of(item)]
            problem = inactive(item, self._store)
            words = {"status": "True", "reason": "Ready", "message": "Can admit new workloads"}
            if problem is not None:
                words = {"status": "False", "reason": "Inactive", "message": problem}
            self._write_usage(item, ours, usage(item, quotas.used), words)
        for item in self._store.list(KUEUE, "LocalQueue"):
            ours = [w for w in workloads if (namespace_of(w), _queue_name(w)) == (namespace_of(item), name_of(item))]
            self._write_usage(item, ours, self._local_usage(item, ours), self._local_words(item))

    def _local_words(self, queue: Manifest) -> Manifest:
        """Whether a LocalQueue is active, as Kueue says it."""
        target = self._store.get(ObjectRef(KUEUE, "ClusterQueue", "", text_at(queue, "spec", "clusterQueue")))
        if target is not None and inactive(target, self._store) is None:
            return {"status": "True", "reason": "Ready", "message": "Can submit new workloads to localQueue"}
        reason = "ClusterQueueDoesNotExist" if target is None else "ClusterQueueIsInactive"
        return {"status": "False", "reason": reason, "message": "Can't submit new workloads to clusterQueue"}

    def _local_usage(self, queue: Manifest, workloads: Iterable[Manifest]) -> list[Json]:
        units = {(namespace_of(unit.owner), unit.name): unit for unit in self._units()}
        own = Quotas(self._store)
        for workload in workloads:
            unit = units.get((namespace_of(workload), name_of(workload)))
            if unit is not None and is_admitted(workload):
                own.take(_admission(workload), unit.demand)
        target = self._store.get(ObjectRef(KUEUE, "ClusterQueue", "", text_at(queue, "spec", "clusterQueue")))
        return usage(target, own.used) if target is not None else []

    def _write_usage(self, item: Manifest, workloads: list[Manifest], used: list[Json], words: Manifest) -> None:
        admitted = sum(is_admitted(workload) for workload in workloads)
        active = {"type": "Active", **words}
        conditions = merged_conditions(items_at(item, "status", "conditions"), [active], self._context.clock.now())
        status: Json = {
            "flavorsReservation": used,
            "flavorsUsage": used,
            "pendingWorkloads": len(workloads) - admitted,
            "reservingWorkloads": admitted,
            "admittedWorkloads": admitted,
            "conditions": conditions,
        }
        self._store.replace_status({**item, "status": status})


def is_admitted(workload: Manifest) -> bool:
    return condition_is(workload, "Admitted")


def _admission(workload: Manifest) -> Fits:
    sets = items_at(workload, "status", "admission", "podSetAssignments")
    flavors = {name: str(flavor) for entry in sets for name, flavor in mapping_at(entry, "flavors").items()}
    return Fits(text_at(workload, "status", "admission", "clusterQueue"), flavors)


def _queue_name(workload: Manifest) -> str:
    return text_at(workload, "spec", "queueName")


def _workload_name(kind: str, name: str, uid: str) -> str:
    return f"{kind}-{name}-{digest_of([kind, name, uid])[:5]}"


def _is_done(job: Manifest) -> bool:
    return condition_is(job, "Complete") or condition_is(job, "Failed")


def _resumed(job: Manifest, labels: Json, tolerations: Sequence[object]) -> Manifest:
    if value_at(job, "spec", "suspend") is not True:
        return job
    template = mapping_at(job, "spec", "template")
    selector = {**mapping_at(template, "spec", "nodeSelector"), **labels}
    pod = with_spec(
        template, nodeSelector=selector, tolerations=[*items_at(template, "spec", "tolerations"), *tolerations]
    )
    return with_spec(job, suspend=False, template=_without_empty(pod))


def _without_empty(item: Json) -> Json:
    spec = {name: value for name, value in mapping_at(item, "spec").items() if value not in ([], {})}
    return {**item, "spec": spec}


def _stated(item: Manifest) -> object:
    return item.get("spec"), labels_of(item), is_deleting(item), is_admitted(item), _is_done(item)


def _pod_facts(pod: Manifest) -> object:
    return value_at(pod, "spec", "schedulingGates"), is_finished(pod), is_deleting(pod), bool(node_of(pod))
