"""The hardware of a cluster as its owner declares it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.models import (
    ClassDevice,
    ConsumedCounters,
    FabricDomain,
    InferenceClass,
    InferenceCluster,
    SharedCounters,
    Taint,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolSpec:
    """Equal nodes. Each has all the devices; zones are given to the nodes in turn.

    Devices that are None are not known: what the nodes have already stays.
    """

    name: str
    nodes: int
    devices: tuple[ClassDevice, ...] | None = ()
    counters: tuple[SharedCounters, ...] = ()
    taints: tuple[Taint, ...] = ()
    zones: tuple[str, ...] = ()
    domain: FabricDomain | None = None
    """Nodes that follow each other are in one domain, as many as it has."""

    @property
    def claimable(self) -> tuple[ClassDevice, ...]:
        """Devices that a driver publishes. Synthetic ones steer placement and exist in no cluster."""
        return tuple(device for device in self.devices or () if device.claim == "DRA")

    def node_name(self, index: int) -> str:
        return f"{self.name}-{index}"


def pools_of(cluster: InferenceCluster, classes: Mapping[str, InferenceClass]) -> tuple[NodePoolSpec, ...]:
    """The pools of a declared cluster. The devices of a pool whose class is missing are not known."""
    return tuple(
        NodePoolSpec(
            name=pool.name,
            nodes=pool.max_node_count if pool.max_node_count is not None else pool.node_count,
            devices=classes[pool.class_name].spec.devices if pool.class_name in classes else None,
            counters=classes[pool.class_name].spec.shared_counters if pool.class_name in classes else (),
            taints=pool.taints,
            zones=pool.zones,
            domain=pool.fabric.domain if pool.fabric is not None else None,
        )
        for pool in cluster.spec.node_pools
    )


def drivers_of(pool: NodePoolSpec) -> tuple[str, ...]:
    return tuple(sorted({device.driver for device in pool.claimable}))


def published_devices(pool: NodePoolSpec, driver: str) -> list[dict[str, object]]:
    """What the driver's ResourceSlice of one node lists: gpu-0, gpu-1, and so on."""
    return [
        entry
        for device in pool.claimable
        if device.driver == driver
        for entry in _devices(device, range(device.count), pool.counters)
    ]


def published_counters(pool: NodePoolSpec, driver: str) -> list[dict[str, object]]:
    """The counter sets of one node that the driver's devices draw on: gpu-0, gpu-1, and so on."""
    drawn = {
        each.counter_set for device in pool.claimable if device.driver == driver for each in device.consumes_counters
    }
    return [
        {"name": f"{found.name}-{index}", "counters": msgspec.to_builtins(found.counters)}
        for found in pool.counters
        if found.name in drawn
        for index in range(found.count)
    ]


def _devices(
    device: ClassDevice, indices: Iterable[int], counters: tuple[SharedCounters, ...]
) -> Iterator[dict[str, object]]:
    attributes = {name: msgspec.to_builtins(value) for name, value in device.attributes.items()}
    capacity = {name: msgspec.to_builtins(value) for name, value in device.capacity.items()}
    for index in indices:
        entry: dict[str, object] = {"name": f"{device.name}-{index}"}
        values = {name: {"string": f"value-{index // each}"} for name, each in device.devices_per_value.items()}
        if attributes or values:
            entry["attributes"] = {**attributes, **values}
        if capacity:
            entry["capacity"] = capacity
        if device.allow_multiple_allocations:
            entry["allowMultipleAllocations"] = True
        if device.consumes_counters:
            entry["consumesCounters"] = [_drawn(consumed, index, counters) for consumed in device.consumes_counters]
        yield entry


def _drawn(consumed: ConsumedCounters, index: int, counters: tuple[SharedCounters, ...]) -> dict[str, object]:
    """Devices are in the sets in turn."""
    sets = next((found.count for found in counters if found.name == consumed.counter_set), 1)
    return {
        "counterSet": f"{consumed.counter_set}-{index % sets}",
        "counters": msgspec.to_builtins(consumed.counters),
    }


def device_classes(pools: Iterable[NodePoolSpec]) -> dict[str, tuple[str, ...]]:
    """The drivers behind each DeviceClass that the pools name."""
    found: dict[str, set[str]] = {}
    for pool in pools:
        for device in pool.claimable:
            if device.device_class_name:
                found.setdefault(device.device_class_name, set()).add(device.driver)
    return {name: tuple(sorted(drivers)) for name, drivers in sorted(found.items())}


def class_expression(name: str, drivers: Iterable[str], pools: Iterable[NodePoolSpec]) -> str:
    """What devices of a DeviceClass are. Where a driver has several classes, an attribute tells them apart."""
    devices = [device for pool in pools for device in pool.claimable]
    return " || ".join(_of_driver(name, [each for each in devices if each.driver == driver]) for driver in drivers)


def _of_driver(name: str, devices: list[ClassDevice]) -> str:
    driver = f'device.driver == "{devices[0].driver}"'
    others = [device for device in devices if device.device_class_name != name]
    for attribute in sorted(devices[0].attributes) if others else ():
        mine = _texts(attribute, [device for device in devices if device.device_class_name == name])
        theirs = _texts(attribute, others)
        if None not in mine | theirs and not mine & theirs and "/" not in attribute:
            values = ", ".join(f'"{value}"' for value in sorted(map(str, mine)))
            return f'{driver} && device.attributes["{devices[0].driver}"].{attribute} in [{values}]'
    return driver


def _texts(attribute: str, devices: Iterable[ClassDevice]) -> set[str | None]:
    found = (device.attributes.get(attribute) for device in devices)
    return {value.string if value is not None else None for value in found}
