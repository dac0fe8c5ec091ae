"""Nodes, ResourceSlices and DeviceClasses of a workload cluster, generated from InferenceClasses.

A device has what its class declares. What the class leaves out and the NVIDIA driver publishes for every GPU (its uuid,
its place on the PCI bus, versions of the driver) is added in the driver's own words, so that selectors which read it
meet on KWOK's nodes what they would meet on real ones.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from modelplane.api.labels import GPU_TAINT, POOL
from modelplane.sim.cluster.pools import NodePoolSpec, device_classes, drivers_of, published_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.client import Manifest

NVIDIA = "gpu.nvidia.com"
_RESOURCES = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "10Ti", "pods": "110"}
_GPUS_PER_PCIE_ROOT = 2
_FIRST_BUS = 0x10


def hardware(pools: Sequence[NodePoolSpec], *, system_nodes: int = 1) -> list[Manifest]:
    """Everything a cloud and its DRA drivers would have made, ready to be applied."""
    made = [_device_class(name, drivers) for name, drivers in device_classes(pools).items()]
    made += [_node(f"system-{index}", {}, []) for index in range(system_nodes)]
    for pool in pools:
        for index in range(pool.nodes):
            made += _pool_node(pool, index)
    return made


def _pool_node(pool: NodePoolSpec, index: int) -> Iterable[Manifest]:
    name = pool.node_name(index)
    labels = {POOL: pool.name}
    if pool.zones:
        labels["topology.kubernetes.io/zone"] = pool.zones[index % len(pool.zones)]
    if pool.domain is not None:
        labels[pool.domain.topology_key] = f"{pool.name}-domain-{index // pool.domain.node_count}"
    yield _node(name, labels, _taints(pool))
    for driver in drivers_of(pool):
        devices = published_devices(pool, driver)
        yield _slice(name, driver, [_as_published(name, driver, number, each) for number, each in enumerate(devices)])


def _node(name: str, labels: dict[str, str], taints: list[dict[str, str]]) -> Manifest:
    everywhere = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**everywhere, "type": "kwok", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": taints} if taints else {},
        "status": {"allocatable": _RESOURCES, "capacity": _RESOURCES},
    }


def _taints(pool: NodePoolSpec) -> list[dict[str, str]]:
    taints = [{"key": each.key, "value": each.value or "", "effect": str(each.effect)} for each in pool.taints]
    if pool.claimable and not any(taint["key"] == GPU_TAINT for taint in taints):
        taints.append({"key": GPU_TAINT, "value": "present", "effect": "NoSchedule"})
    return taints


def _slice(node: str, driver: str, devices: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _as_published(node: str, driver: str, number: int, device: dict[str, object]) -> Manifest:
    if driver != NVIDIA:
        return device
    declared = device.get("attributes")
    serial = uuid.uuid5(uuid.NAMESPACE_DNS, f"{device['name']}.{node}")
    facts: dict[str, object] = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{serial}"},
        "brand": {"string": "Nvidia"},
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{_FIRST_BUS + number:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // _GPUS_PER_PCIE_ROOT:02x}"},
        **(declared if isinstance(declared, dict) else {}),
    }
    return {**device, "attributes": facts}


def _device_class(name: str, drivers: Sequence[str]) -> Manifest:
    expression = " || ".join(f'device.driver == "{driver}"' for driver in drivers)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
