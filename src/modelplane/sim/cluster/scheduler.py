"""Binds pods to nodes: kube-scheduler, reduced to what matters for Modelplane's objects.

One pass handles every pending pod, in the order of the real queue: higher priority first, then older, then by name.
For each it filters the nodes, asks `devices` for the first node that also has the devices, writes the allocation into
the claims and binds. Nothing else allocates, and a pass is not interrupted, so no device is given twice.

Among nodes that pass, the pod goes where fewest pods of its own controller run, then fewest pods, then by name: the
spreading that the real one does by default, without its random choice among equals.

A pod that does not fit gets kube-scheduler's message and stays pending until something changes. Nothing is preempted:
the real scheduler does not preempt for devices either. CPU and memory are not modelled.

Pods of KAI and Volcano are scheduled as gangs: enough of the pods of a PodGroup fit, and all that fit are bound, or
none is. Pods that must share a domain of nodes do (`gang_topology`), their queues limit what may run (`quotas`), and
nodes are filled one after the other. kube-scheduler places each pod by itself, so a gang that does not fit as a whole
is left half placed. A gang that falls below its size later is not evicted, which KAI does after a while.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.objects import (
    Manifest,
    finalizers_of,
    int_at,
    is_deleting,
    items_at,
    mapping_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
    with_metadata,
)
from modelplane.api.timestamps import timestamp
from modelplane.k8s.dra import Fatal, GaveUp, NodeAllocation
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.claims import CLAIM_FINALIZER, claim_names, is_finished
from modelplane.sim.cluster.controller import ControllerContext, changed
from modelplane.sim.cluster.devices import DeviceCache, allocation_of
from modelplane.sim.cluster.filters import CLAIM_ELSEWHERE, NO_DEVICES, is_within, refusal
from modelplane.sim.cluster.gang_topology import TOPOLOGY_GROUP, Subgroup, subgroups
from modelplane.sim.cluster.gangs import KAI_GROUP, VOLCANO_GROUP, PodGroup, gang_of, group_ref, scheduler_of
from modelplane.sim.cluster.node_lifecycle import node_of
from modelplane.sim.cluster.nodes import RESOURCE_GROUP
from modelplane.sim.cluster.objects import condition_of, controller_of, merged_conditions, with_spec, with_status
from modelplane.sim.cluster.pod_affinity import affinity_refusal
from modelplane.sim.cluster.quotas import queue_usage
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.scheduling_snapshot import (
    GATED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Binding,
    SchedulingSnapshot,
    Unschedulable,
)
from modelplane.sim.cluster.settings import KUBELET_FINALIZER
from modelplane.sim.cluster.volumes import volume_fault

_KINDS = frozenset(
    {
        *(("", kind) for kind in ("Pod", "Node", "PersistentVolumeClaim")),
        *((RESOURCE_GROUP, kind) for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass")),
        *((group, kind) for group in (KAI_GROUP, VOLCANO_GROUP) for kind in ("PodGroup", "Queue")),
        ("scheduling.k8s.io", "PriorityClass"),
        (TOPOLOGY_GROUP, "Topology"),
    }
)

_Fit = tuple[list[tuple[Manifest, Binding]], list[tuple[Manifest, Unschedulable]]]
"""Pods that fit, with where, and pods that do not, with why."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Pods that are scheduled together, in queue order."""

    gang: PodGroup | None
    pods: list[Manifest]


class KubeScheduler:
    """One key for the whole cluster: all pending pods."""

    name = "scheduler"
    kinds = _KINDS

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self._devices = DeviceCache(context.store)
        self.key = ObjectRef("", "Pod", "", "")

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        return (self.key,) if _matters(change) else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        pods = self._store.list("", "Pod")
        waiting = [pod for pod in pods if not node_of(pod) and not is_deleting(pod) and not is_finished(pod)]
        waiting = [pod for pod in waiting if not self._is_early(pod)]
        if not waiting:
            self._devices.evict()
            return Done()
        snapshot = self._snapshot(pods)
        for unit in self._units(sorted(waiting, key=self._queue_order)):
            if unit.gang is None:
                self._place_alone(unit.pods[0], snapshot)
            else:
                self._place_gang(unit.pods, unit.gang, snapshot, self._bound(unit.gang, pods))
        return Done()

    def _is_early(self, pod: Manifest) -> bool:
        """Whether claims of the pod are still to be created: it is not scheduled before."""
        if None not in claim_names(pod).values():
            return False
        names = (entry.get("resourceClaimTemplateName") for entry in items_at(pod, "spec", "resourceClaims"))
        refs = (
            ObjectRef(RESOURCE_GROUP, "ResourceClaimTemplate", namespace_of(pod), str(name)) for name in names if name
        )
        return all(self._store.get(ref) is not None for ref in refs)

    def _units(self, waiting: Iterable[Manifest]) -> list[_Unit]:
        """In the order of their first pods."""
        units: list[_Unit] = []
        gangs: dict[ObjectRef, _Unit] = {}
        for pod in waiting:
            gang = gang_of(pod, self._store)
            if gang is None or value_at(pod, "spec", "schedulingGates"):
                units.append(_Unit(None, [pod]))
            elif gang.ref in gangs:
                gangs[gang.ref].pods.append(pod)
            else:
                gangs[gang.ref] = _Unit(gang, [pod])
                units.append(gangs[gang.ref])
        return units

    def _bound(self, gang: PodGroup, pods: Iterable[Manifest]) -> list[Manifest]:
        alive = (pod for pod in pods if node_of(pod) and not is_deleting(pod) and not is_finished(pod))
        return [pod for pod in alive if group_ref(pod) == gang.ref]

    def _place_alone(self, pod: Manifest, snapshot: SchedulingSnapshot) -> None:
        decision = self._decide(pod, snapshot)
        if isinstance(decision, Binding):
            self._bind(pod, decision)
            snapshot.bind(pod, decision)
        else:
            self._explain(pod, decision)

    def _place_gang(
        self, pods: Sequence[Manifest], gang: PodGroup, snapshot: SchedulingSnapshot, bound: Sequence[Manifest]
    ) -> None:
        lacking = max(1, gang.least - len(bound))
        assumed = snapshot.assumed()
        fitting: list[tuple[Manifest, Binding]] = []
        refused: list[tuple[Manifest, Unschedulable]] = []
        complete = gang.found and len(pods) >= lacking
        for part in subgroups(self._store.get(gang.ref), pods, bound, self._store) if complete else ():
            fits, rest = self._fit_subgroup(part, assumed)
            fitting += fits
            refused += rest
        if len(fitting) >= lacking:
            snapshot.adopt(assumed)
            for pod, binding in fitting:
                self._bind(pod, binding)
            for pod, waits in refused:
                self._explain(pod, waits)
            return
        words = _gang_words(gang, len(pods), len(fitting), lacking, refused[0][1].message if refused else "")
        for pod in pods:
            self._explain(pod, Unschedulable(UNSCHEDULABLE, words))

    def _fit_subgroup(self, part: Subgroup, assumed: SchedulingSnapshot) -> _Fit:
        """All of its pods in one domain, where it is bound to one, or none."""
        if not part.key:
            return self._fit(part.waiting, assumed)
        why = part.fault or f"no node has the label {part.key}"
        for nodes in () if part.fault else part.domains(assumed.nodes, assumed.pods):
            trial = assumed.within(nodes)
            fits, rest = self._fit(part.waiting, trial)
            if not rest:
                assumed.adopt(trial)
                return fits, []
            why = f"no domain of {part.key} has room for {len(part.waiting)} pods: {rest[0][1].message}"
        return [], [(pod, Unschedulable(UNSCHEDULABLE, why)) for pod in part.waiting]

    def _fit(self, pods: Iterable[Manifest], assumed: SchedulingSnapshot) -> _Fit:
        """Those that fit are added to the snapshot."""
        fitting: list[tuple[Manifest, Binding]] = []
        refused: list[tuple[Manifest, Unschedulable]] = []
        for pod in pods:
            decision = self._decide(pod, assumed)
            if isinstance(decision, Binding):
                assumed.bind(pod, decision)
                fitting.append((pod, decision))
            else:
                refused.append((pod, decision))
        return fitting, refused

    def _snapshot(self, pods: Sequence[Manifest]) -> SchedulingSnapshot:
        bound = [pod for pod in pods if node_of(pod) and not is_finished(pod)]
        nodes = {name_of(node): node for node in self._store.list("", "Node")}
        return SchedulingSnapshot(
            nodes=nodes,
            pods=Counter(node_of(pod) for pod in bound),
            siblings=Counter((str(controller_of(pod).get("uid", "")), node_of(pod)) for pod in bound),
            devices=self._devices.book(),
            queues=queue_usage(self._store, self._context.settings.device_resources, bound),
            placed=[(pod, nodes[node_of(pod)]) for pod in bound if node_of(pod) in nodes],
        )

    def _queue_order(self, pod: Manifest) -> tuple[int, str, str, str]:
        created = text_at(pod, "metadata", "creationTimestamp")
        return -self._priority(pod), created, namespace_of(pod), name_of(pod)

    def _priority(self, pod: Manifest) -> int:
        name = text_at(pod, "spec", "priorityClassName")
        found = self._store.get(ObjectRef("scheduling.k8s.io", "PriorityClass", "", name)) if name else None
        return int_at(found, "value") if found is not None else int_at(pod, "spec", "priority")

    def _decide(self, pod: Manifest, snapshot: SchedulingSnapshot) -> Binding | Unschedulable:
        if value_at(pod, "spec", "schedulingGates"):
            return Unschedulable(GATED, "Scheduling is blocked due to non-empty scheduling gates")
        claims = [(name, self._claim(pod, name)) for name in claim_names(pod).values()]
        found = [claim for _, claim in claims if claim is not None]
        if len(found) < len(claims):
            missing = next(name for name, claim in claims if claim is None)
            return _nowhere(snapshot, _missing_claim(pod, missing))
        if not snapshot.nodes:
            return Unschedulable(UNSCHEDULABLE, "no nodes available to schedule pods")
        if refused := snapshot.queues.refusal(pod):
            return Unschedulable(UNSCHEDULABLE, refused)
        if fault := volume_fault(pod, self._store):
            return _nowhere(snapshot, fault)
        return _place(pod, found, snapshot)

    def _claim(self, pod: Manifest, name: str | None) -> Manifest | None:
        if name is None:
            return None
        return self._store.get(ObjectRef(RESOURCE_GROUP, "ResourceClaim", namespace_of(pod), name))

    def _bind(self, pod: Manifest, binding: Binding) -> None:
        now = self._context.clock.now()
        results = {result.claim: result for result in binding.allocation.claims} if binding.allocation else {}
        for name in claim_names(pod).values():
            claim = self._claim(pod, name)
            if claim is None:
                continue
            if result := results.get(name_of(claim)):
                finalizers = [*finalizers_of(claim), CLAIM_FINALIZER]
                claim = self._store.replace(with_metadata(claim, finalizers=finalizers))
                claim = with_status(claim, allocation=allocation_of(result, timestamp(now)))
            self._store.replace_status(_reserved(claim, pod))
        bound = with_spec(
            with_metadata(pod, finalizers=[*finalizers_of(pod), KUBELET_FINALIZER]), nodeName=binding.node
        )
        self._set_condition(self._store.replace(bound), {"type": "PodScheduled", "status": "True"})

    def _explain(self, pod: Manifest, waits: Unschedulable) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": waits.reason, "message": waits.message}
        if waits.reason != GATED and condition_of(pod, "PodScheduled").get("message") != waits.message:
            source = scheduler_of(pod) or "default-scheduler"
            warn(self._context, pod, "FailedScheduling", waits.message, source=source)
        self._set_condition(pod, condition)

    def _set_condition(self, pod: Manifest, condition: Mapping[str, object]) -> None:
        known = items_at(pod, "status", "conditions")
        conditions = merged_conditions(known, [condition], self._context.clock.now())
        phase = text_at(pod, "status", "phase") or "Pending"
        self._store.replace_status(with_status(pod, phase=phase, conditions=conditions))


def _missing_claim(pod: Manifest, name: str | None) -> str:
    """A claim that is made from a template, or one that the pod names."""
    if name is None:
        return f'pod "{namespace_of(pod)}/{name_of(pod)}": ResourceClaim not created yet'
    return f'resourceclaim "{name}" not found'


def _place(pod: Manifest, claims: Sequence[Manifest], snapshot: SchedulingSnapshot) -> Binding | Unschedulable:
    refused: Counter[str] = Counter()
    fitting: list[Manifest] = []
    selectors = [value_at(claim, "status", "allocation", "nodeSelector") for claim in claims]
    for state in snapshot.states():
        reason = refusal(pod, state) or affinity_refusal(pod, state.node, snapshot.placed)
        if reason is None and not all(is_within(selector, state.node) for selector in selectors):
            reason = CLAIM_ELSEWHERE
        if reason is None:
            fitting.append(state.node)
        else:
            refused[reason] += 1
    nodes = snapshot.by_preference(pod, fitting)
    wanted = [claim for claim in claims if not mapping_at(claim, "status", "allocation")]
    if not wanted:
        return Binding(name_of(nodes[0]), None) if nodes else _unavailable(snapshot, refused)
    return _allocate(wanted, nodes, snapshot, refused)


def _allocate(
    claims: Sequence[Manifest], nodes: Sequence[Manifest], snapshot: SchedulingSnapshot, refused: Counter[str]
) -> Binding | Unschedulable:
    if missing := snapshot.devices.missing_class(claims):
        return _nowhere(snapshot, missing)
    outcome = snapshot.devices.allocate(claims, nodes)
    if isinstance(outcome, NodeAllocation):
        return Binding(outcome.node, outcome.allocation)
    if isinstance(outcome, Fatal):
        return Unschedulable(SCHEDULER_ERROR, outcome.reason)
    reason = "timed out trying to allocate devices" if isinstance(outcome, GaveUp) else NO_DEVICES
    if nodes:
        refused[reason] += len(nodes)
    return _unavailable(snapshot, refused)


def _unavailable(snapshot: SchedulingSnapshot, refused: Mapping[str, int]) -> Unschedulable:
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in refused.items()))
    return _nowhere(snapshot, reasons)


def _nowhere(snapshot: SchedulingSnapshot, reasons: str) -> Unschedulable:
    return Unschedulable(UNSCHEDULABLE, f"0/{len(snapshot.nodes)} nodes are available: {reasons}.")


def _reserved(claim: Manifest, pod: Manifest) -> Manifest:
    consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
    known = [entry for entry in items_at(claim, "status", "reservedFor") if entry.get("uid") != uid_of(pod)]
    return with_status(claim, reservedFor=[*known, consumer])


def _matters(change: StoreChange) -> bool:
    """Whether the change may make a pending pod schedulable."""
    match change.ref.group, change.ref.kind:
        case "", "Pod":
            return changed(change, _pod_facts)
        case "", "Node":
            return changed(change, lambda node: (node.get("spec"), mapping_at(node, "metadata").get("labels")))
        case "", "PersistentVolumeClaim":
            return changed(change, lambda claim: value_at(claim, "status", "phase"))
        case "resource.k8s.io", "ResourceClaim":
            return changed(change, lambda claim: value_at(claim, "status", "allocation"))
        case ("scheduling.run.ai" | "scheduling.volcano.sh", "PodGroup" | "Queue"):
            return changed(change, lambda item: (item.get("spec"), value_at(item, "status", "state")))
        case ("resource.k8s.io", "ResourceSlice" | "DeviceClass") | ("scheduling.k8s.io", "PriorityClass"):
            return True
        case "kai.scheduler", "Topology":
            return True
    return False


def _gang_words(gang: PodGroup, pods: int, fitting: int, lacking: int, why: str) -> str:
    if not gang.found:
        return f"PodGroup {gang.ref.name} does not exist"
    if pods < lacking:
        return f"PodGroup {gang.ref.name} needs {gang.least} pods, {lacking - pods} of them do not exist yet"
    return f"Resources were found for {fitting} pods while {lacking} are required for gang scheduling. {why}"


def _pod_facts(pod: Manifest) -> object:
    gates = value_at(pod, "spec", "schedulingGates")
    return node_of(pod), is_finished(pod), claim_names(pod), gates, group_ref(pod), is_deleting(pod)
