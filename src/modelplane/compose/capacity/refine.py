"""Declared capacity, as far as what was observed bears it out.

A pool of a fixed size has no more nodes than can be seen; one that scales may still grow to its declared size. Devices
that anyone holds are not free, whether or not we know of a replica that does.
"""

from collections.abc import Mapping

import msgspec

from modelplane.api.models import GpuPool, NodePool, PoolDevice
from modelplane.compose.capacity.devices import ObservedPool


def refined(
    pool: GpuPool, declared: NodePool, seen: Mapping[str, ObservedPool] | None, known: GpuPool | None
) -> GpuPool:
    if seen is None:
        return msgspec.structs.replace(pool, observed_nodes=known.observed_nodes if known else None)
    observed = seen.get(pool.name, ObservedPool())
    fixed = declared.max_node_count is None
    nodes = min(pool.nodes, observed.nodes) if fixed else pool.nodes
    devices = tuple(_device(device, nodes, observed, fixed=fixed) for device in pool.devices)
    return msgspec.structs.replace(pool, nodes=nodes, observed_nodes=observed.nodes, devices=devices)


def _device(device: PoolDevice, nodes: int, observed: ObservedPool, *, fixed: bool) -> PoolDevice:
    room = nodes * device.count
    if device.claim == "Synthetic":
        return msgspec.structs.replace(device, free=max(room - (device.allocated or 0), 0))
    there, taken = observed.count(device.driver, device.attributes)
    allocated = max(device.allocated or 0, taken)
    room = min(room, there) if fixed else room
    return msgspec.structs.replace(device, allocated=allocated, free=max(room - allocated, 0))
