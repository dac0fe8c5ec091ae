"""Devices as a cluster's DRA drivers publish them, and as its claims hold them.

Only the newest generation of a driver's pool counts, and only when it has all of its slices. A published device belongs
to a declared kind when its driver is the same and every attribute that both have is equal.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from modelplane.api.labels import POOL, REPLICA
from modelplane.api.models import Attribute
from modelplane.api.objects import Manifest, labels_of, name_of, text_at, value_at
from modelplane.compose.readiness import has_condition
from modelplane.k8s.dra import DeviceId

SLICES = ("resource.k8s.io/v1", "ResourceSlice")
CLAIMS = ("resource.k8s.io/v1", "ResourceClaim")
NODES = ("v1", "Node")


class Holder(StrEnum):
    """What holds a device.

    NOBODY    it is free
    REPLICA   a pod of a known replica, which placement counts by itself
    OTHER     anything else, a replica that is being deleted included
    """

    NOBODY = "Nobody"
    REPLICA = "Replica"
    OTHER = "Other"


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
    labels = {name_of(node): labels_of(node) for node in nodes if _takes_pods(node)}
    pool_of = {name: found.get(POOL, "") for name, found in labels.items()}
    held: dict[DeviceId, tuple[Holder, int | None, str]] = {}
    for number, claim in enumerate(claims):
        holder = _holder(claim, replicas)
        for device in _held(claim):
            # Several claims may share a device. What others hold of it is never overlooked.
            if device not in held or holder is Holder.OTHER:
                held[device] = holder, number, text_at(claim, "metadata", "labels", REPLICA)
    devices: defaultdict[str, list[PublishedDevice]] = defaultdict(list)
    for item in _current(slices):
        pool = pool_of.get(text_at(item, "spec", "nodeName"))
        if pool:
            devices[pool] += _published(item, held)
    members: defaultdict[str, dict[str, Mapping[str, str]]] = defaultdict(dict)
    for name, pool in pool_of.items():
        members[pool][name] = labels[name]
    return {pool: ObservedPool(len(found), tuple(devices[pool]), found) for pool, found in members.items() if pool}


def _takes_pods(node: Manifest) -> bool:
    return has_condition(node, "Ready") and value_at(node, "spec", "unschedulable") is not True


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


def _published(item: Manifest, held: Mapping[DeviceId, tuple[Holder, int | None, str]]) -> list[PublishedDevice]:
    driver, pool = text_at(item, "spec", "driver"), text_at(item, "spec", "pool", "name")
    node = text_at(item, "spec", "nodeName")
    found = value_at(item, "spec", "devices")
    devices = []
    for entry in found if isinstance(found, list | tuple) else ():
        identity = DeviceId(driver, pool, text_at(entry, "name"))
        attributes = value_at(entry, "attributes")
        known = attributes if isinstance(attributes, Mapping) else {}
        holder, claim, replica = held.get(identity, (Holder.NOBODY, None, ""))
        devices.append(PublishedDevice(identity, known, holder, claim, node, replica, _counter_sets(entry)))
    return devices


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
