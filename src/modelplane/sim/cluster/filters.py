"""The filters of kube-scheduler that matter here, in its order and its words. The first that refuses a node names it.

    cordon, taints, node selector and required affinity, number of pods

CPU and memory are not modelled: a node has room for any pod until it has as many as its kubelet admits. `devices`
allocates devices after these filters.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from modelplane.api.objects import Manifest, items_at, labels_of, mapping_at, value_at
from modelplane.k8s.dra import decode_node
from modelplane.k8s.dra.nodes import NodeScope, reaches
from modelplane.k8s.dra.resources import CoreNodeSelector
from modelplane.sim.cluster.node_lifecycle import UNSCHEDULABLE, tolerates

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS = "Too many pods"
CLAIM_ELSEWHERE = "resourceclaim not available on the node"
NO_DEVICES = "cannot allocate all claims"


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with how many pods are bound to it."""

    node: Manifest
    pods: int


def refusal(pod: Manifest, state: NodeState) -> str | None:
    """Why the pod cannot run on the node, or None."""
    return next((reason for reason, refuses in _FILTERS if refuses(pod, state)), None)


def is_within(selector: object, node: Manifest) -> bool:
    """Whether a node selector, as in an allocation, admits the node. None admits every node."""
    if selector is None:
        return True
    wanted = msgspec.convert(selector, CoreNodeSelector)
    return reaches(NodeScope.of(node_name=None, all_nodes=None, selector=wanted), decode_node(node))


def _is_cordoned(pod: Manifest, state: NodeState) -> bool:
    if value_at(state.node, "spec", "unschedulable") is not True:
        return False
    taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    return not any(tolerates(toleration, taint) for toleration in items_at(pod, "spec", "tolerations"))


def _is_tainted(pod: Manifest, state: NodeState) -> bool:
    tolerations = list(items_at(pod, "spec", "tolerations"))
    return any(
        taint.get("effect") in {"NoSchedule", "NoExecute"} and not any(tolerates(entry, taint) for entry in tolerations)
        for taint in items_at(state.node, "spec", "taints")
    )


def _is_not_selected(pod: Manifest, state: NodeState) -> bool:
    wanted = mapping_at(pod, "spec", "nodeSelector")
    if not wanted.items() <= labels_of(state.node).items():
        return True
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return not is_within(value_at(pod, "spec", *required), state.node)


def _is_full(_pod: Manifest, state: NodeState) -> bool:
    allocatable = str(value_at(state.node, "status", "allocatable", "pods"))
    return allocatable.isdigit() and state.pods >= int(allocatable)


_FILTERS: tuple[tuple[str, Callable[[Manifest, NodeState], bool]], ...] = (
    (CORDONED, _is_cordoned),
    (TAINTED, _is_tainted),
    (NOT_SELECTED, _is_not_selected),
    (TOO_MANY_PODS, _is_full),
)
