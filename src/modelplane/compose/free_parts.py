"""How many partitions and shares a pool can still give: as many as placement would still promise.

A whole GPU of which a slice is held is not free, and a slice of a GPU that is held is not, either. So these numbers
depend on each other, and on where the cluster may have put what is held.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.models import ClassDevice, GpuPool, InferenceCluster, ModelReplica, PoolDevice
from modelplane.compose.fleet_snapshot import cluster_of
from modelplane.compose.placed_replica import placed_replica
from modelplane.placement.cluster_info import ClusterInfo, make_cluster_info
from modelplane.placement.pool_usage import free_slots
from modelplane.placement.values import PlacedReplica

_Devices = TypeVar("_Devices", ClassDevice, PoolDevice)


def with_free_parts(
    cluster: InferenceCluster, pools: tuple[GpuPool, ...], replicas: Iterable[ModelReplica]
) -> tuple[GpuPool, ...]:
    """Pools without such devices stay as they are."""
    if not any(_is_divided(device) for pool in pools for device in pool.devices):
        return pools
    status = msgspec.structs.replace(cluster.status, gpu_pools=pools)
    shown = cluster_of(msgspec.structs.replace(cluster, status=status))
    info = make_cluster_info(shown, _placed(replicas))
    return tuple(_with_free(pool, info) for pool in pools)


def counted_once(devices: Iterable[_Devices]) -> list[_Devices]:
    """Claimable devices without those that are parts of others: of the kinds on a counter set, the one with fewest."""
    found: list[_Devices] = []
    largest: dict[str, _Devices] = {}
    for device in devices:
        if device.claim == "Synthetic":
            continue
        if not device.consumes_counters:
            found.append(device)
            continue
        name = device.consumes_counters[0].counter_set
        known = largest.get(name)
        largest[name] = device if known is None or device.count < known.count else known
    return found + list(largest.values())


def _is_divided(device: PoolDevice) -> bool:
    return bool(device.consumes_counters) or device.allow_multiple_allocations


def _placed(replicas: Iterable[ModelReplica]) -> list[PlacedReplica]:
    found: list[PlacedReplica] = []
    for replica in replicas:
        try:
            found.append(placed_replica(replica))
        except InputError:
            continue
    return found


def _with_free(pool: GpuPool, info: ClusterInfo) -> GpuPool:
    position = info.position(pool.name)
    if position is None:
        return pool
    bits = {kind.name: bit for bit, kind in enumerate(info.kinds[position].hardware.kinds)}
    devices = tuple(
        msgspec.structs.replace(device, free=_free(info, position, bits[device.name]))
        if _is_divided(device) and device.name in bits
        else device
        for device in pool.devices
    )
    return msgspec.structs.replace(pool, devices=devices)


def _free(info: ClusterInfo, position: int, bit: int) -> int:
    kind, usage = info.kinds[position], info.usages[position]
    shape = (kind.hardware.demand(1, 1 << bit),)
    return free_slots(kind.counts, kind.nodes, usage, shape, packed=kind.packed, foreign=kind.foreign, bound=kind.bound)
