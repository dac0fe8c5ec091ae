"""Devices as a cluster's DRA drivers publish them, and as its claims hold them.

Only the newest generation of a driver's pool counts, and only when it has all of its slices. A published device belongs
to a declared kind when its driver is the same and every attribute that both have is equal.

A device with a taint that keeps pods away is not there for new ones. Nor is a node whose agent reports faulty GPUs.
Replicas that hold such a device are named, so that they can move before it fails them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from modelplane.api.labels import POOL, REPLICA
from modelplane.api.models import Attribute
from modelplane.api.objects import Manifest, items_at, labels_of, mapping_at, name_of, text_at, value_at
from modelplane.compose.readiness import has_condition
from modelplane.k8s.dra import DeviceId

SLICES = ("resource.k8s.io/v1", "ResourceSlice")
CLAIMS = ("resource.k8s.io/v1", "ResourceClaim")
NODES = ("v1", "Node")
_BLOCKING = {"NoSchedule", "NoExecute"}
_GPU_FAULTS = (
    ("AcceleratedHardwareReady", "False"),
    ("GPUMissing", "True"),
    ("NVLinkStatusInactive", "True"),
    ("XIDErrors", "True"),
)
"""Conditions of Nodes: of EKS' node monitoring agent, which reads DCGM, and of AKS' node problem detector."""


class Holder(Enum):
    """What holds a device.

    NOBODY    it is free
    REPLICA   a pod of a known replica, which placement counts by itself
    OTHER     anything else, a replica that is being deleted included
    """

    NOBODY = auto()
    REPLICA = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    id: DeviceId
    attributes: Mapping[str, object]
    holder: Holder = Holder.NOBODY
    claim: int | None = None
    """Which of the claims that were read holds it."""
    node: str = ""
    replica: str = ""
    """The name of the replica that holds it."""
    counter_sets: tuple[str, ...] = ()
    """What it draws on, with other devices."""

    def is_of(self, driver: str, attributes: Mapping[str, Attribute]) -> bool:
        if self.id.driver != driver:
            return False
        stated = ((name, self._stated(driver, name), wanted) for name, wanted in attributes.items())
        return all(found is None or found == msgspec.to_builtins(wanted) for _, found, wanted in stated)

    def _stated(self, driver: str, name: str) -> object:
        return self.attributes.get(name, self.attributes.get(f"{driver}/{name}"))


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """The nodes of a pool that can take pods, and the devices on them."""

    nodes: int = 0
    devices: tuple[PublishedDevice, ...] = field(default=())
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each node, by its name."""
    faulty: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with a device that a replica holds, by the name of the replica."""

    def complete_domains(self, key: str, nodes: int) -> int:
        """Values of a label that so many nodes have, none of which has devices that others hold."""
        held = {device.node for device in self.devices if device.holder is Holder.OTHER}
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, labels in self.labels.items():
            if labels.get(key):
                found[labels[key]].append(name)
        return sum(len(names) >= nodes and held.isdisjoint(names) for names in found.values())

    def count(self, driver: str, attributes: Mapping[str, Attribute]) -> tuple[int, int]:
        """Devices of a kind, and how many of them are held by others than replicas."""
        found = [device for device in self.devices if device.is_of(driver, attributes)]
        return len(found), sum(device.holder is Holder.OTHER for device in found)

    def claims_of_others(self, driver: str, attributes: Mapping[str, Attribute]) -> tuple[tuple[int, int], ...]:
        """How many devices of a kind others hold by one claim on one node, and how many such claims there are."""
        held = [device for device in self.devices if device.holder is Holder.OTHER and device.is_of(driver, attributes)]
        sizes = Counter((device.claim, device.id.pool) for device in held)
        return tuple(sorted(Counter(sizes.values()).items(), reverse=True))

    def undeclared_sets(self, declared: Iterable[tuple[str, Mapping[str, Attribute]]], driver: str) -> int:
        """Counter sets of a driver on which devices of others draw that are of no declared kind."""
        kinds = tuple(declared)
        return len(
            {
                (device.id.pool, name)
                for device in self.devices
                if device.holder is Holder.OTHER and device.id.driver == driver
                for name in device.counter_sets
                if not any(device.is_of(*kind) for kind in kinds)
            }
        )


def observed_pools(
    nodes: Iterable[Manifest],
    slices: Iterable[Manifest],
    claims: Iterable[Manifest],
    replicas: Collection[str] = frozenset(),
) -> dict[str, ObservedPool]:
    """By the pool that nodes are labelled with. `replicas` are the names of those that are known on the cluster."""
    read = list(nodes)
    wrong = {name_of(node): fault for node in read if (fault := _gpu_fault(node))}
    pool_of = {name_of(node): labels_of(node).get(POOL, "") for node in read}
    usable = {name_of(node): labels_of(node) for node in read if _takes_pods(node) and name_of(node) not in wrong}
    held: dict[DeviceId, tuple[Holder, int | None, str]] = {}
    for number, claim in enumerate(claims):
        holder = _holder(claim, replicas)
        for device in _held(claim):
            # Several claims may share a device. What others hold of it is never overlooked.
            if device not in held or holder is Holder.OTHER:
                held[device] = holder, number, text_at(claim, "metadata", "labels", REPLICA)
    devices: defaultdict[str, list[PublishedDevice]] = defaultdict(list)
    faulty: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for item in _current(slices):
        node = text_at(item, "spec", "nodeName")
        pool = pool_of.get(node, "")
        for found, taint in _published(item, held):
            why = wrong.get(node, taint)
            if why and found.holder is Holder.REPLICA:
                faulty[pool].setdefault(found.replica, why)
            if node in usable and (not taint or found.holder is not Holder.NOBODY):
                devices[pool].append(found)
    members: defaultdict[str, dict[str, Mapping[str, str]]] = defaultdict(dict)
    for name, labels in usable.items():
        members[pool_of[name]][name] = labels
    return {
        pool: ObservedPool(len(members[pool]), tuple(devices[pool]), members[pool], faulty[pool])
        for pool in sorted({*members, *faulty})
        if pool
    }


def _takes_pods(node: Manifest) -> bool:
    return has_condition(node, "Ready") and value_at(node, "spec", "unschedulable") is not True


def _gpu_fault(node: Manifest) -> str:
    said = {text_at(each, "type"): each for each in items_at(node, "status", "conditions")}
    for kind, status in _GPU_FAULTS:
        if kind in said and said[kind].get("status") == status:
            why = text_at(said[kind], "message") or text_at(said[kind], "reason") or kind
            return f"node {name_of(node)} reports {kind} {status}: {why}"
    return ""


def _current(slices: Iterable[Manifest]) -> list[Manifest]:
    by_pool: defaultdict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for item in slices:
        by_pool[text_at(item, "spec", "driver"), text_at(item, "spec", "pool", "name")].append(item)
    return [item for items in by_pool.values() for item in _complete(items)]


def _complete(items: list[Manifest]) -> list[Manifest]:
    newest = max(_whole(item, "generation") for item in items)
    current = [item for item in items if _whole(item, "generation") == newest]
    return current if len(current) >= _whole(current[0], "resourceSliceCount") else []


def _whole(item: Manifest, name: str) -> int:
    value = value_at(item, "spec", "pool", name)
    return value if isinstance(value, int) else 0


def held_by_replicas(claims: Iterable[Manifest], replicas: Collection[str]) -> int:
    """Devices that are allocated to pods of known replicas."""
    return sum(len(_held(claim)) for claim in claims if _holder(claim, replicas) is Holder.REPLICA)


def _holder(claim: Manifest, replicas: Collection[str]) -> Holder:
    """A claim that is made from a template of ours carries the name of its replica."""
    return Holder.REPLICA if text_at(claim, "metadata", "labels", REPLICA) in replicas else Holder.OTHER


def _published(
    item: Manifest, held: Mapping[DeviceId, tuple[Holder, int | None, str]]
) -> Iterator[tuple[PublishedDevice, str]]:
    """The devices of a slice, each with the taint that keeps pods away from it."""
    driver, pool = text_at(item, "spec", "driver"), text_at(item, "spec", "pool", "name")
    node = text_at(item, "spec", "nodeName")
    for entry in items_at(item, "spec", "devices"):
        identity = DeviceId(driver, pool, text_at(entry, "name"))
        known = mapping_at(entry, "attributes")
        holder, claim, replica = held.get(identity, (Holder.NOBODY, None, ""))
        device = PublishedDevice(identity, known, holder, claim, node, replica, _counter_sets(entry))
        yield device, _taint(device, entry)


def _taint(device: PublishedDevice, entry: Manifest) -> str:
    for taint in items_at(entry, "taints"):
        if taint.get("effect") in _BLOCKING:
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"device {device.id.device} of node {device.node} has the taint {taint.get('key')}{value}"
    return ""


def _counter_sets(device: Manifest) -> tuple[str, ...]:
    found = value_at(device, "consumesCounters")
    return tuple(text_at(entry, "counterSet") for entry in (found if isinstance(found, list | tuple) else ()))


def _held(claim: Manifest) -> list[DeviceId]:
    """Devices that an allocated claim holds; admin access holds none."""
    results = value_at(claim, "status", "allocation", "devices", "results")
    return [
        DeviceId(text_at(result, "driver"), text_at(result, "pool"), text_at(result, "device"))
        for result in (results if isinstance(results, list | tuple) else ())
        if value_at(result, "adminAccess") is not True
    ]
