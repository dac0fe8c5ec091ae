"""Allocation on nodes: the structured allocator of Kubernetes 1.36, as a function of observed state.

Inputs are an inventory of slices, the devices in use by other claims, and a plan of the claims to satisfy. One attempt
is for one node. The result is upstream's: the same outcome, the same number of devices and, since the order of the
search is fixed, the same devices.

What is left coarse: nothing is stored, no share ids are made, and class and claim configuration is not copied into
results. The scheduler of the cluster is authoritative; this package predicts it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from modelplane.k8s.dra.allocation_state import AllocatingDevice, AllocationState
from modelplane.k8s.dra.explain import Failures
from modelplane.k8s.dra.inventory import Inventory, NodeView
from modelplane.k8s.dra.nodes import UnreadableSelector, merged, pinned_to
from modelplane.k8s.dra.outcome import Allocated, ClaimResult, DeviceResult, Fatal, GaveUp, NoFit, Outcome
from modelplane.k8s.dra.plan import Aborted, AllocationPlan, SubRequestPlan, Wanted, check_size
from modelplane.k8s.dra.resources import CoreNodeSelector, Node
from modelplane.k8s.dra.search import OutOfSteps, Search
from modelplane.k8s.dra.usage import DeviceUsage

if TYPE_CHECKING:
    from modelplane.k8s.dra.counters import Remainders
    from modelplane.k8s.dra.offers import PoolKey

DEFAULT_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """The first node on which the claims fit, and what they get there."""

    node: str
    allocation: Allocated


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """The result of one node: a solution or none, with the state to explain it."""

    view: NodeView
    state: AllocationState
    solved: bool
    out_of_steps: int = 0


Placement: TypeAlias = NodeAllocation | NoFit | Fatal | GaveUp


class Allocator:
    """Allocates from one inventory and one usage; it changes neither."""

    def __init__(
        self, inventory: Inventory, usage: DeviceUsage | None = None, *, max_steps: int = DEFAULT_STEPS
    ) -> None:
        self._inventory = inventory
        self._usage = usage or DeviceUsage()
        self._max_steps = max_steps
        self._remainders: dict[PoolKey, Remainders] = {}

    def allocate(self, plan: AllocationPlan, node: Node) -> Outcome:
        """One attempt on one node."""
        try:
            attempt = self._attempt(plan, node)
            if attempt.solved:
                return _result(plan, attempt, node)
        except (Aborted, UnreadableSelector) as error:
            return Fatal(str(error))
        failures = Failures(plan)
        failures.add(attempt.view, attempt.state, attempt.out_of_steps)
        return failures.outcome()

    def allocate_first(self, plan: AllocationPlan, nodes: Iterable[Node]) -> Placement:
        """The first of the nodes that fits. A fatal error ends it; a node that gave up is passed over."""
        failures = Failures(plan)
        try:
            for node in nodes:
                attempt = self._attempt(plan, node)
                if attempt.solved:
                    return NodeAllocation(node.metadata.name, _result(plan, attempt, node))
                failures.add(attempt.view, attempt.state, attempt.out_of_steps)
        except (Aborted, UnreadableSelector) as error:
            return Fatal(str(error))
        return failures.outcome()

    def _attempt(self, plan: AllocationPlan, node: Node) -> _Attempt:
        if plan.fault is not None:
            raise Aborted(plan.fault)
        view = self._inventory.view(node)
        state = AllocationState(plan, view, self._usage, node, self._remainders)
        wanted = plan.counts if plan.counts is not None else _wanted(plan, view, state)
        search = Search(plan, state, wanted, self._max_steps)
        try:
            return _Attempt(view, state, search.run())
        except OutOfSteps:
            state.deallocate_all()
            return _Attempt(view, state, solved=False, out_of_steps=search.steps)


def _wanted(plan: AllocationPlan, view: NodeView, state: AllocationState) -> Wanted:
    wanted = tuple(
        _wanted_all(subrequest, view, state) if subrequest.wants_all else subrequest.count
        for subrequest in plan.subrequests
    )
    for claim in plan.claims:
        check_size(claim, wanted)
    return wanted


def _wanted_all(subrequest: SubRequestPlan, view: NodeView, state: AllocationState) -> tuple[int, ...]:
    """The devices of a subrequest for all: every suitable one, used or not; all pools must be complete."""
    place = f"claim {subrequest.claim}, request {subrequest.full_name}: requests all devices, but resource pool"
    for pool in view.pools:
        if pool.incomplete or pool.invalid:
            status = "being updated" if pool.incomplete else "invalid"
            raise Aborted(f"{place} {pool.key[0]}/{pool.key[1]} is {status}: {pool.incomplete or pool.invalid}")
    return tuple(index for index in range(len(view.candidates)) if state.is_suitable(subrequest, index))


def _result(plan: AllocationPlan, attempt: _Attempt, node: Node) -> Allocated:
    return Allocated(
        tuple(
            ClaimResult(claim.name, tuple(_device(entry) for entry in devices), _node_selector(devices, node))
            for claim, devices in zip(plan.claims, attempt.state.allocating, strict=True)
        )
    )


def _device(entry: AllocatingDevice) -> DeviceResult:
    offer = entry.candidate.offer
    return DeviceResult(
        entry.subrequest.full_name,
        offer.id,
        entry.subrequest.admin_access,
        entry.consumed,
        entry.subrequest.tolerations,
        offer.binding_conditions or (),
        offer.binding_failure_conditions,
    )


def _node_selector(devices: Iterable[AllocatingDevice], node: Node) -> CoreNodeSelector | None:
    """The nodes of a pod with these devices: this node if any device is local to it, else those of all slices."""
    offers = [entry.candidate.offer for entry in devices]
    if any(offer.effective_scope.node_name or offer.binds_to_node for offer in offers):
        return pinned_to(node.metadata.name)
    return merged(offer.effective_scope.selector for offer in offers if offer.effective_scope.selector is not None)
