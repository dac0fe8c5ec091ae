"""The cluster during one pass of the scheduler: decisions of the pass are visible to the pods after them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from modelplane.api.objects import Manifest, name_of
from modelplane.k8s.dra import Allocated
from modelplane.sim.cluster.devices import DeviceInventory
from modelplane.sim.cluster.filters import NodeState
from modelplane.sim.cluster.gangs import packs
from modelplane.sim.cluster.objects import controller_of
from modelplane.sim.cluster.pod_affinity import Placed
from modelplane.sim.cluster.quotas import QueueUsage

UNSCHEDULABLE, SCHEDULER_ERROR, GATED = "Unschedulable", "SchedulerError", "SchedulingGated"


@dataclass(frozen=True, slots=True)
class Binding:
    """The pod fits: its node, and the allocations of its claims."""

    node: str
    allocation: Allocated | None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The pod does not fit, or cannot be scheduled yet."""

    reason: str
    message: str


@dataclass(slots=True)
class SchedulingSnapshot:
    nodes: Mapping[str, Manifest]
    pods: Counter[str]
    siblings: Counter[tuple[str, str]]
    devices: DeviceInventory
    queues: QueueUsage
    placed: list[Placed] = field(default_factory=list)
    """The pods that are on nodes."""

    def states(self) -> Iterable[NodeState]:
        return (NodeState(node, self.pods[name]) for name, node in self.nodes.items())

    def by_preference(self, pod: Manifest, nodes: Iterable[Manifest]) -> list[Manifest]:
        """kube-scheduler spreads the pods of one controller; the gang schedulers fill one node after the other."""
        if packs(pod):
            return sorted(nodes, key=lambda n: (-self.pods[name_of(n)], name_of(n)))
        owner = str(controller_of(pod).get("uid", ""))
        return sorted(nodes, key=lambda n: (self.siblings[owner, name_of(n)], self.pods[name_of(n)], name_of(n)))

    def bind(self, pod: Manifest, binding: Binding) -> None:
        self.pods[binding.node] += 1
        self.siblings[str(controller_of(pod).get("uid", "")), binding.node] += 1
        self.queues.take(pod)
        self.placed.append((pod, self.nodes[binding.node]))
        if binding.allocation is not None:
            self.devices.take(binding.allocation.claims)

    def assumed(self) -> "SchedulingSnapshot":
        """A copy that assumed pods can be added to."""
        return SchedulingSnapshot(
            self.nodes,
            Counter(self.pods),
            Counter(self.siblings),
            replace(self.devices),
            self.queues.copy(),
            list(self.placed),
        )

    def within(self, nodes: Mapping[str, Manifest]) -> "SchedulingSnapshot":
        """A copy that assumed pods can be added to, on these nodes alone."""
        return replace(self.assumed(), nodes=nodes)

    def adopt(self, assumed: "SchedulingSnapshot") -> None:
        """Take over the assumed pods of a copy."""
        self.pods, self.siblings = assumed.pods, assumed.siblings
        self.devices, self.queues, self.placed = assumed.devices, assumed.queues, assumed.placed
