"""The node lifecycle controller: unreachable, cordoned and removed nodes, and their pods.

    cordoned       gets the unschedulable taint; its pods stay
    lost           its kubelet is gone. For node_grace_s the node still counts as ready.
                   Then it is Unknown and tainted, its pods are not ready, and after eviction_s (or their own
                   tolerationSeconds) they are deleted. They stay Terminating until the node is back or
                   removed, because no kubelet confirms that they stopped.
    removed        its pods are removed without a kubelet's confirmation

The default tolerations that admission gives to pods are assumed and not written into them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from modelplane.api.objects import Json, Manifest, is_deleting, items_at, mapping_at, value_at, with_metadata
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, changed, is_about, versions
from modelplane.sim.cluster.nodes import LIFECYCLE_TAINTS, ready_condition
from modelplane.sim.cluster.objects import annotation, merged_conditions, with_status
from modelplane.sim.cluster.settings import LOST

UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def node_of(pod: Manifest) -> str:
    """The name of the node that the pod is bound to, or an empty text."""
    spec = pod.get("spec")
    found = spec.get("nodeName") if isinstance(spec, dict) else None
    return found if isinstance(found, str) else ""


def node_ref(name: str) -> ObjectRef:
    return ObjectRef("", "Node", "", name)


def lost_since(node: Manifest) -> float | None:
    """When the node was lost; None while it exists."""
    text = annotation(node, LOST)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return 0.0


class NodeLifecycle:
    """Sets the Ready condition and the lifecycle taints of one node, and evicts its pods."""

    name = "node-lifecycle"
    kinds = frozenset({("", "Node"), ("", "Pod")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Node"):
            return (change.ref,)
        if is_about(change, "", "Pod") and changed(change, node_of):
            return tuple(node_ref(node_of(pod)) for pod in versions(change) if node_of(pod))
        return ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        node = self._store.get(ref)
        if node is None:
            for pod in self._pods_on(ref.name):
                self._remove(pod)
            return Done()
        unreachable_at = self._unreachable_at(node)
        wait = unreachable_at - self._context.clock.now()
        unreachable = wait <= 0
        node = self._set_taints(node, unreachable=unreachable)
        self._set_ready(node, unreachable=unreachable)
        if not unreachable:
            return RequeueAfter(wait) if wait < math.inf else Done()
        return self._evict(self._pods_on(ref.name), unreachable_at)

    def _unreachable_at(self, node: Manifest) -> float:
        since = lost_since(node)
        return math.inf if since is None else since + self._context.settings.node_grace_s

    def _pods_on(self, node: str) -> Iterator[Manifest]:
        return (pod for pod in self._store.list("", "Pod") if node_of(pod) == node)

    def _set_taints(self, node: Manifest, *, unreachable: bool) -> Manifest:
        known = {(t.get("key"), t.get("effect")): t for t in items_at(node, "spec", "taints")}
        wanted = list(self._lifecycle_taints(node, unreachable=unreachable))
        kept = [t for t in known.values() if not str(t.get("key")).startswith(LIFECYCLE_TAINTS)]
        taints = [*kept, *(known.get((t["key"], t["effect"]), t) for t in wanted)]
        spec = {name: value for name, value in mapping_at(node, "spec").items() if name != "taints"}
        return self._store.replace({**node, "spec": {**spec, "taints": taints} if taints else spec})

    def _lifecycle_taints(self, node: Manifest, *, unreachable: bool) -> Iterator[Json]:
        added = {"timeAdded": timestamp(self._context.clock.now())}
        if value_at(node, "spec", "unschedulable") is True:
            yield {"key": UNSCHEDULABLE, "effect": "NoSchedule", **added}
        if unreachable:
            yield {"key": UNREACHABLE, "effect": "NoSchedule", **added}
            yield {"key": UNREACHABLE, "effect": "NoExecute", **added}

    def _set_ready(self, node: Manifest, *, unreachable: bool) -> None:
        now = self._context.clock.now()
        condition = ready_condition(now)
        if unreachable:
            message = "Kubelet stopped posting node status."
            condition |= {"status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
        conditions = merged_conditions(items_at(node, "status", "conditions"), [condition], now)
        self._store.replace_status(with_status(node, conditions=conditions))

    def _evict(self, pods: Iterable[Manifest], unreachable_at: float) -> Outcome:
        """Pods of an unreachable node: not ready at once, deleted after their toleration time."""
        now = self._context.clock.now()
        waits = [math.inf]
        for pod in pods:
            shown = self._mark_not_ready(pod)
            left = unreachable_at + self._pod_toleration_s(pod) - now
            if is_deleting(pod):
                continue
            if left <= 0:
                self._store.delete(ref_of(shown))
            else:
                waits.append(left)
        return RequeueAfter(min(waits)) if min(waits) < math.inf else Done()

    def _pod_toleration_s(self, pod: Manifest) -> float:
        taint = {"key": UNREACHABLE, "effect": "NoExecute"}
        tolerations = [entry for entry in items_at(pod, "spec", "tolerations") if tolerates(entry, taint)]
        if not tolerations:
            return self._context.settings.eviction_s
        return min(_toleration_s(entry) for entry in tolerations)

    def _mark_not_ready(self, pod: Manifest) -> Manifest:
        wanted = [
            {**entry, "status": "False"}
            for entry in items_at(pod, "status", "conditions")
            if entry.get("type") == "Ready" and entry.get("status") == "True"
        ]
        if not wanted:
            return pod
        conditions = merged_conditions(items_at(pod, "status", "conditions"), wanted, self._context.clock.now())
        return self._store.replace_status(with_status(pod, conditions=conditions))

    def _remove(self, pod: Manifest) -> None:
        """Remove the pod without a kubelet: its node is gone."""
        bare = self._store.replace(with_metadata(pod, finalizers=[]))
        if self._store.get(ref_of(bare)) is not None:
            self._store.delete(ref_of(bare))


def _toleration_s(toleration: Mapping[str, object]) -> float:
    seconds = toleration.get("tolerationSeconds")
    return float(seconds) if isinstance(seconds, int) else math.inf


def tolerates(toleration: Mapping[str, object], taint: Mapping[str, object]) -> bool:
    """Whether a toleration covers a taint, by the rules of the scheduler."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
