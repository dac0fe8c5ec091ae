"""Declared capacity, as far as what was observed bears it out.

A pool of a fixed size has no more nodes than can be seen; one that scales may still grow to its declared size, unless
it was short of the nodes that its replicas need for so long that its provider is not taken to have any. What replicas
hold is known from the replicas, so only what others hold is read from the cluster: a replica that was promised devices
and did not start yet hides nobody. Devices that a driver does not publish cannot be had either.
"""

from collections.abc import Mapping

import msgspec

from modelplane.api.models import GpuPool, NodePool, PoolDevice
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.capacity.devices import ObservedPool

SCALE_UP_PATIENCE_S = 900.0
"""How long a pool that scales may lack nodes that it needs before it counts with those that are there."""


def refined(
    pool: GpuPool,
    declared: NodePool,
    seen: Mapping[str, ObservedPool] | None,
    known: GpuPool | None,
    now: float = 0.0,
) -> GpuPool:
    if seen is None:
        return _as_known(pool, known)
    observed = seen.get(pool.name, ObservedPool())
    short = observed.nodes < _needed(pool, declared, observed)
    since = _short_since(known, now) if short else None
    fixed = declared.max_node_count is None or _given_up(since, now)
    nodes = min(pool.nodes, observed.nodes) if fixed else pool.nodes
    devices = tuple(_device(device, nodes, observed, fixed=fixed) for device in pool.devices)
    return msgspec.structs.replace(pool, nodes=nodes, observed_nodes=observed.nodes, short_since=since, devices=devices)


def requeue_after_s(pools: tuple[GpuPool, ...], declared: tuple[NodePool, ...], now: float) -> float | None:
    """When time alone changes what a pool counts with."""
    scaling = {pool.name for pool in declared if pool.max_node_count is not None}
    since = [epoch_s(pool.short_since) for pool in pools if pool.name in scaling]
    left = [moment + SCALE_UP_PATIENCE_S - now for moment in since if moment is not None]
    return min((wait for wait in left if wait > 0), default=None)


def _as_known(pool: GpuPool, known: GpuPool | None) -> GpuPool:
    """What was seen last still counts while nothing can be seen."""
    if known is None:
        return pool
    before = {device.name: device for device in known.devices}
    devices = tuple(
        msgspec.structs.replace(
            device, held_by_others=before[device.name].held_by_others, missing=before[device.name].missing
        )
        if device.name in before
        else device
        for device in pool.devices
    )
    return msgspec.structs.replace(
        pool, observed_nodes=known.observed_nodes, short_since=known.short_since, devices=devices
    )


def _needed(pool: GpuPool, declared: NodePool, observed: ObservedPool) -> int:
    """Nodes that should be there: those that were asked for, or, where the pool scales, those that devices are held on.

    Pods may need more than that for want of a better packing, so a pool is not called short too early.
    """
    if declared.max_node_count is None:
        return declared.node_count
    held = [
        -(-((device.allocated or 0) + observed.count(device.driver, device.attributes)[1]) // device.count)
        for device in pool.devices
        if device.claim != "Synthetic"
    ]
    return min(max(held, default=0), declared.max_node_count)


def _short_since(known: GpuPool | None, now: float) -> str | None:
    if known is not None and known.short_since is not None:
        return known.short_since
    return timestamp(now) if now else None


def _given_up(since: str | None, now: float) -> bool:
    moment = epoch_s(since)
    return moment is not None and now >= moment + SCALE_UP_PATIENCE_S


def _device(device: PoolDevice, nodes: int, observed: ObservedPool, *, fixed: bool) -> PoolDevice:
    room, ours = nodes * device.count, device.allocated or 0
    if device.claim == "Synthetic":
        return msgspec.structs.replace(device, free=max(room - ours, 0))
    there, others = observed.count(device.driver, device.attributes)
    seen = min(nodes, observed.nodes) if fixed else observed.nodes
    missing = max(seen * device.count - there, 0)
    free = max(room - missing - ours - others, 0)
    return msgspec.structs.replace(device, held_by_others=others, missing=missing, free=free)
