"""Kueue's quotas: which ClusterQueue a workload counts against, and whether its quota suffices.

A workload fits when one flavor of the queue has enough quota for all its devices of a resource; flavors are tried in
order. Borrowing within cohorts, preemption and quota of CPU and memory are not modelled.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.api.objects import Manifest, items_at, labels_of, mapping_at, name_of, text_at, value_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.demand import Demand
from modelplane.sim.cluster.objects import selector_matches

KUEUE = "kueue.x-k8s.io"
FlavorUse = Counter[tuple[str, str, str]]
"""Devices in use by ClusterQueue, flavor and resource."""


@dataclass(frozen=True, slots=True)
class Fits:
    """The flavor of each resource."""

    cluster_queue: str
    flavors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lacks:
    """Why a workload is not admitted."""

    reason: str
    message: str


@dataclass(slots=True)
class Quotas:
    """Quota usage during one pass; `take` counts an admitted workload."""

    store: ClusterStore
    used: FlavorUse = field(default_factory=Counter)

    def take(self, fits: Fits, wanted: Demand) -> None:
        for resource, count in wanted.items():
            self.used[fits.cluster_queue, fits.flavors.get(resource, ""), resource] += count

    def judge(self, namespace: str, local_queue: str, wanted: Demand) -> Fits | Lacks:
        queue = self.store.get(ObjectRef(KUEUE, "LocalQueue", namespace, local_queue))
        if queue is None:
            return Lacks("Inadmissible", f"LocalQueue {local_queue} doesn't exist")
        name = text_at(queue, "spec", "clusterQueue")
        item = self.store.get(ObjectRef(KUEUE, "ClusterQueue", "", name))
        if item is None:
            return Lacks("Inadmissible", f"ClusterQueue {name} doesn't exist")
        problem = inactive(item, self.store)
        if problem is not None:
            return Lacks("Inadmissible", f"ClusterQueue {name} is inactive: {problem}")
        if not self._selects(item, namespace):
            return Lacks("Inadmissible", "Workload namespace doesn't match ClusterQueue selector")
        return self._assign(item, wanted)

    def _selects(self, queue: Manifest, namespace: str) -> bool:
        selector = value_at(queue, "spec", "namespaceSelector")
        if not isinstance(selector, Mapping):
            return False
        found = self.store.get(ObjectRef("", "Namespace", "", namespace))
        labels = {"kubernetes.io/metadata.name": namespace, **labels_of(found or {"metadata": {}})}
        return selector_matches(selector, labels)

    def _assign(self, queue: Manifest, wanted: Demand) -> Fits | Lacks:
        flavors: dict[str, str] = {}
        for resource, count in wanted.items():
            offers = list(_offers(queue, resource))
            if not offers:
                return Lacks("Pending", f"resource {resource} unavailable in ClusterQueue")
            free = {flavor: quota - self.used[name_of(queue), flavor, resource] for flavor, quota in offers}
            found = next((flavor for flavor, room in free.items() if room >= count), None)
            if found is None:
                return Lacks("Pending", _lacking(resource, count, free))
            flavors[resource] = found
        return Fits(name_of(queue), flavors)


def _lacking(resource: str, count: int, free: Mapping[str, int]) -> str:
    parts = (
        f"insufficient unused quota for {resource} in flavor {flavor}, {count - max(room, 0)} more needed"
        for flavor, room in free.items()
    )
    return f"couldn't assign flavors: {', '.join(parts)}"


def _offers(queue: Manifest, resource: str) -> Iterable[tuple[str, int]]:
    for group in items_at(queue, "spec", "resourceGroups"):
        for flavor in items_at(group, "flavors"):
            for entry in items_at(flavor, "resources"):
                if entry.get("name") == resource:
                    yield str(flavor.get("name")), _whole(entry.get("nominalQuota"))


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0


def inactive(queue: Manifest, store: ClusterStore) -> str | None:
    """Why a ClusterQueue admits nothing, or None."""
    if text_at(queue, "spec", "stopPolicy") in {"Hold", "HoldAndDrain"}:
        return "it is stopped"
    for group in items_at(queue, "spec", "resourceGroups"):
        for flavor in items_at(group, "flavors"):
            name = str(flavor.get("name"))
            if store.get(ObjectRef(KUEUE, "ResourceFlavor", "", name)) is None:
                return f"ResourceFlavor {name} doesn't exist"
    return None


def usage(queue: Manifest, used: FlavorUse) -> list[dict[str, object]]:
    """What `flavorsReservation` of a ClusterQueue says."""
    return [
        {
            "name": flavor.get("name"),
            "resources": [
                {
                    "name": entry.get("name"),
                    "total": str(used[name_of(queue), str(flavor.get("name")), str(entry.get("name"))]),
                    "borrowed": "0",
                }
                for entry in items_at(flavor, "resources")
            ],
        }
        for group in items_at(queue, "spec", "resourceGroups")
        for flavor in items_at(group, "flavors")
    ]


def node_rules(store: ClusterStore, flavors: Iterable[str]) -> tuple[dict[str, object], list[Mapping[str, object]]]:
    """The node labels and the tolerations that flavors put on pods."""
    labels: dict[str, object] = {}
    tolerations: list[Mapping[str, object]] = []
    for name in sorted(set(flavors)):
        flavor = store.get(ObjectRef(KUEUE, "ResourceFlavor", "", name)) or {}
        labels |= mapping_at(flavor, "spec", "nodeLabels")
        tolerations += items_at(flavor, "spec", "tolerations")
    return labels, tolerations
