"""Binds pods to nodes: kube-scheduler, reduced to what decides about our objects.

One pass looks at every pod that waits, in the order of the real queue: higher priority first, then older, then by name.
For each it filters the nodes, asks `devices` for the first node that also has the devices, writes the allocation into
the claims and binds. Nothing else allocates, and a pass is not interrupted, so no device is given twice.

Among nodes that pass, the pod goes where fewest pods of its own controller run, then fewest pods, then by name: the
spreading that the real one does by default, without its random choice among equals.

A pod that does not fit says why in kube-scheduler's words and waits until something changes. Never preempts: the real
one does not preempt for devices either. Pods of every schedulerName are treated alike, one by one: gangs are not known
here. CPU and memory are not modelled.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from modelplane.compose.manifests import name_of, text_at, value_at
from modelplane.dra.allocate import Allocated, Fatal, GaveUp, Placed
from modelplane.local.cluster.claims import CLAIM_FINALIZER, claim_names, is_finished
from modelplane.local.cluster.controller import Site, changed
from modelplane.local.cluster.devices import DeviceBook, Devices, allocation_of
from modelplane.local.cluster.filters import CLAIM_ELSEWHERE, NO_DEVICES, NodeState, is_within, refusal
from modelplane.local.cluster.node_lifecycle import node_of
from modelplane.local.cluster.nodes import RESOURCE_GROUP
from modelplane.local.cluster.objects import (
    controller_of,
    finalizers_of,
    int_at,
    is_deleting,
    items_at,
    mapping_at,
    merged_conditions,
    namespace_of,
    uid_of,
    with_metadata,
    with_spec,
    with_status,
)
from modelplane.local.cluster.settings import KUBELET_FINALIZER
from modelplane.local.store_rules import timestamp
from modelplane.reconcile.outcomes import Outcome, Settled
from modelplane.reconcile.store import Change, Manifest, ObjectRef

UNSCHEDULABLE, SCHEDULER_ERROR, GATED = "Unschedulable", "SchedulerError", "SchedulingGated"


@dataclass(frozen=True, slots=True)
class Binding:
    """The pod fits: where, and what its claims that had no devices get there."""

    node: str
    allocation: Allocated | None


@dataclass(frozen=True, slots=True)
class Waits:
    """The pod does not fit, or cannot be judged."""

    reason: str
    message: str


@dataclass(slots=True)
class _Board:
    """The cluster during one pass: decisions of the pass are visible to the pods after them."""

    nodes: Mapping[str, Manifest]
    pods: Counter[str]
    siblings: Counter[tuple[str, str]]
    devices: DeviceBook

    def states(self) -> Iterable[NodeState]:
        return (NodeState(node, self.pods[name]) for name, node in self.nodes.items())

    def by_preference(self, pod: Manifest, nodes: Iterable[Manifest]) -> list[Manifest]:
        owner = str(controller_of(pod).get("uid", ""))
        return sorted(nodes, key=lambda n: (self.siblings[owner, name_of(n)], self.pods[name_of(n)], name_of(n)))

    def bind(self, pod: Manifest, binding: Binding) -> None:
        self.pods[binding.node] += 1
        self.siblings[str(controller_of(pod).get("uid", "")), binding.node] += 1
        if binding.allocation is not None:
            self.devices.take(binding.allocation.claims)


class Scheduler:
    """One queue for the whole cluster; its key stands for all pods that wait."""

    name = "scheduler"

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.store
        self._devices = Devices(site.store)
        self.key = ObjectRef("", "Pod", "", "")

    def concerns(self, change: Change) -> Iterable[ObjectRef]:
        return (self.key,) if _matters(change) else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        pods = self._store.list("", "Pod")
        waiting = [pod for pod in pods if not node_of(pod) and not is_deleting(pod) and not is_finished(pod)]
        if not waiting:
            return Settled()
        board = self._board(pods)
        for pod in sorted(waiting, key=self._queue_order):
            decision = self._decide(pod, board)
            if isinstance(decision, Binding):
                self._bind(pod, decision)
                board.bind(pod, decision)
            else:
                self._explain(pod, decision)
        return Settled()

    def _board(self, pods: Sequence[Manifest]) -> _Board:
        bound = [pod for pod in pods if node_of(pod) and not is_finished(pod)]
        return _Board(
            nodes={name_of(node): node for node in self._store.list("", "Node")},
            pods=Counter(node_of(pod) for pod in bound),
            siblings=Counter((str(controller_of(pod).get("uid", "")), node_of(pod)) for pod in bound),
            devices=self._devices.book(),
        )

    def _queue_order(self, pod: Manifest) -> tuple[int, str, str, str]:
        created = text_at(pod, "metadata", "creationTimestamp")
        return -self._priority(pod), created, namespace_of(pod), name_of(pod)

    def _priority(self, pod: Manifest) -> int:
        name = text_at(pod, "spec", "priorityClassName")
        found = self._store.get(ObjectRef("scheduling.k8s.io", "PriorityClass", "", name)) if name else None
        return int_at(found, "value") if found is not None else int_at(pod, "spec", "priority")

    def _decide(self, pod: Manifest, board: _Board) -> Binding | Waits:
        if value_at(pod, "spec", "schedulingGates"):
            return Waits(GATED, "Scheduling is blocked due to non-empty scheduling gates")
        names = claim_names(pod)
        claims = [self._claim(pod, name) for name in names.values() if name is not None]
        found = [claim for claim in claims if claim is not None]
        if len(found) < len(names):
            return _nowhere(board, f'pod "{namespace_of(pod)}/{name_of(pod)}": ResourceClaim not created yet')
        if not board.nodes:
            return Waits(UNSCHEDULABLE, "no nodes available to schedule pods")
        return _place(pod, found, board)

    def _claim(self, pod: Manifest, name: str) -> Manifest | None:
        return self._store.get(ObjectRef(RESOURCE_GROUP, "ResourceClaim", namespace_of(pod), name))

    def _bind(self, pod: Manifest, binding: Binding) -> None:
        now = self._site.clock.now()
        results = {result.claim: result for result in binding.allocation.claims} if binding.allocation else {}
        for name in claim_names(pod).values():
            claim = self._claim(pod, name) if name is not None else None
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

    def _explain(self, pod: Manifest, waits: Waits) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": waits.reason, "message": waits.message}
        self._set_condition(pod, condition)

    def _set_condition(self, pod: Manifest, condition: Mapping[str, object]) -> None:
        known = items_at(pod, "status", "conditions")
        conditions = merged_conditions(known, [condition], self._site.clock.now())
        phase = text_at(pod, "status", "phase") or "Pending"
        self._store.replace_status(with_status(pod, phase=phase, conditions=conditions))


def _place(pod: Manifest, claims: Sequence[Manifest], board: _Board) -> Binding | Waits:
    refused: Counter[str] = Counter()
    fitting: list[Manifest] = []
    selectors = [value_at(claim, "status", "allocation", "nodeSelector") for claim in claims]
    for state in board.states():
        reason = refusal(pod, state)
        if reason is None and not all(is_within(selector, state.node) for selector in selectors):
            reason = CLAIM_ELSEWHERE
        if reason is None:
            fitting.append(state.node)
        else:
            refused[reason] += 1
    nodes = board.by_preference(pod, fitting)
    wanted = [claim for claim in claims if not mapping_at(claim, "status", "allocation")]
    if not wanted:
        return Binding(name_of(nodes[0]), None) if nodes else _unavailable(board, refused)
    return _allocate(wanted, nodes, board, refused)


def _allocate(
    claims: Sequence[Manifest], nodes: Sequence[Manifest], board: _Board, refused: Counter[str]
) -> Binding | Waits:
    if missing := board.devices.missing_class(claims):
        return _nowhere(board, missing)
    outcome = board.devices.allocate(claims, nodes)
    if isinstance(outcome, Placed):
        return Binding(outcome.node, outcome.allocation)
    if isinstance(outcome, Fatal):
        return Waits(SCHEDULER_ERROR, outcome.reason)
    reason = "timed out trying to allocate devices" if isinstance(outcome, GaveUp) else NO_DEVICES
    if nodes:
        refused[reason] += len(nodes)
    return _unavailable(board, refused)


def _unavailable(board: _Board, refused: Mapping[str, int]) -> Waits:
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in refused.items()))
    return _nowhere(board, reasons)


def _nowhere(board: _Board, reasons: str) -> Waits:
    return Waits(UNSCHEDULABLE, f"0/{len(board.nodes)} nodes are available: {reasons}.")


def _reserved(claim: Manifest, pod: Manifest) -> Manifest:
    consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
    known = [entry for entry in items_at(claim, "status", "reservedFor") if entry.get("uid") != uid_of(pod)]
    return with_status(claim, reservedFor=[*known, consumer])


def _matters(change: Change) -> bool:
    """Whether a waiting pod may be judged differently after it."""
    match change.ref.group, change.ref.kind:
        case "", "Pod":
            return changed(change, lambda pod: (node_of(pod), is_finished(pod), claim_names(pod), _gates(pod)))
        case "", "Node":
            return changed(change, lambda node: (node.get("spec"), mapping_at(node, "metadata").get("labels")))
        case "resource.k8s.io", "ResourceClaim":
            return changed(change, lambda claim: value_at(claim, "status", "allocation"))
        case ("resource.k8s.io", "ResourceSlice" | "DeviceClass") | ("scheduling.k8s.io", "PriorityClass"):
            return True
    return False


def _gates(pod: Manifest) -> object:
    return value_at(pod, "spec", "schedulingGates")
