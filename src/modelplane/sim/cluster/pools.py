"""The hardware of a cluster as its owner declares it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.models import ClassDevice, InferenceClass, InferenceCluster, Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolSpec:
    """Equal nodes. Each has all the devices; zones are given to the nodes in turn.

    Devices that are None are not known: what the nodes have already stays.
    """

    name: str
    nodes: int
    devices: tuple[ClassDevice, ...] | None = ()
    taints: tuple[Taint, ...] = ()
    zones: tuple[str, ...] = ()

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
            taints=pool.taints,
            zones=pool.zones,
        )
        for pool in cluster.spec.node_pools
    )


def drivers_of(pool: NodePoolSpec) -> tuple[str, ...]:
    return tuple(sorted({device.driver for device in pool.claimable}))


def published_devices(pool: NodePoolSpec, driver: str) -> list[dict[str, object]]:
    """What the driver's ResourceSlice of one node lists: gpu-0, gpu-1, and so on."""
    return [
        entry for device in pool.claimable if device.driver == driver for entry in _devices(device, range(device.count))
    ]


def _devices(device: ClassDevice, indices: Iterable[int]) -> Iterator[dict[str, object]]:
    attributes = {name: msgspec.to_builtins(value) for name, value in device.attributes.items()}
    capacity = {name: msgspec.to_builtins(value) for name, value in device.capacity.items()}
    for index in indices:
        entry: dict[str, object] = {"name": f"{device.name}-{index}"}
        if attributes:
            entry["attributes"] = attributes
        if capacity:
            entry["capacity"] = capacity
        yield entry


def device_classes(pools: Iterable[NodePoolSpec]) -> dict[str, tuple[str, ...]]:
    """The drivers behind each DeviceClass that the pools name."""
    found: dict[str, set[str]] = {}
    for pool in pools:
        for device in pool.claimable:
            if device.device_class_name:
                found.setdefault(device.device_class_name, set()).add(device.driver)
    return {name: tuple(sorted(drivers)) for name, drivers in sorted(found.items())}
