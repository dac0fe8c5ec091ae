"""Declared capacity, lowered to what is observed.

A pool of fixed size counts its observed nodes. A pool that scales counts its declared maximum, until it has lacked
nodes that its replicas need for SCALE_UP_TIMEOUT_S; then it counts its observed nodes too. Devices that replicas hold
are read from the ModelReplicas, devices that others hold from the ResourceClaims, so a replica that has not started yet
keeps its devices. Devices that no driver publishes are missing.
"""

from collections.abc import Mapping

import msgspec

from modelplane.api.models import ClaimsOfOther, GpuPool, NodePool, PoolDevice, PoolDomain
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.capacity.devices import ObservedPool

MAX_CLAIM_SIZES = 32
SCALE_UP_TIMEOUT_S = 900.0
"""How long a pool that scales may lack nodes that its replicas need before it counts its observed nodes only."""


def refined(
    pool: GpuPool,
    declared: NodePool,
    seen: Mapping[str, ObservedPool] | None,
    known: GpuPool | None,
    now: float,
) -> GpuPool:
    if seen is None:
        return _as_last_observed(pool, known)
    observed = seen.get(pool.name, ObservedPool())
    short = observed.nodes < _needed(pool, declared, observed)
    since = _short_since(known, now) if short else None
    fixed = declared.max_node_count is None or _timed_out(since, now)
    nodes = min(pool.nodes, observed.nodes) if fixed else pool.nodes
    devices = tuple(_device(device, nodes, observed, fixed=fixed) for device in pool.devices)
    devices = _with_undeclared(devices, observed)
    return msgspec.structs.replace(
        pool,
        nodes=nodes,
        observed_nodes=observed.nodes,
        short_since=since,
        devices=devices,
        domain=_domain(pool.domain, observed, fixed=fixed),
    )


def _domain(domain: PoolDomain | None, observed: ObservedPool, *, fixed: bool) -> PoolDomain | None:
    """A pool that scales may still complete its domains."""
    if domain is None or not fixed:
        return domain
    complete = observed.complete_domains(domain.topology_key, domain.node_count)
    return msgspec.structs.replace(domain, complete=complete)


def _with_undeclared(devices: tuple[PoolDevice, ...], observed: ObservedPool) -> tuple[PoolDevice, ...]:
    """Partitions of others that the class does not declare: each set that they are in counts as held whole.

    The device that a node has fewest of stands for the whole.
    """
    kinds = [(device.driver, device.attributes) for device in devices]
    largest: dict[str, PoolDevice] = {}
    for device in sorted(devices, key=lambda device: device.count):
        if device.consumes_counters:
            largest.setdefault(device.driver, device)
    found = {device.name: observed.undeclared_sets(kinds, driver) for driver, device in largest.items()}
    return tuple(
        msgspec.structs.replace(device, held_by_others=(device.held_by_others or 0) + found[device.name])
        if found.get(device.name)
        else device
        for device in devices
    )


def requeue_after_s(pools: tuple[GpuPool, ...], declared: tuple[NodePool, ...], now: float) -> float | None:
    """Seconds until the first pool that is short of nodes reaches SCALE_UP_TIMEOUT_S."""
    scaling = {pool.name for pool in declared if pool.max_node_count is not None}
    since = [epoch_s(pool.short_since) for pool in pools if pool.name in scaling]
    left = [time_s + SCALE_UP_TIMEOUT_S - now for time_s in since if time_s is not None]
    return min((wait for wait in left if wait > 0), default=None)


def _as_last_observed(pool: GpuPool, known: GpuPool | None) -> GpuPool:
    """While nothing can be observed, the last observation counts."""
    if known is None:
        return pool
    before = {device.name: device for device in known.devices}
    devices = tuple(
        msgspec.structs.replace(
            device,
            held_by_others=before[device.name].held_by_others,
            claims_of_others=before[device.name].claims_of_others,
            missing=before[device.name].missing,
        )
        if device.name in before
        else device
        for device in pool.devices
    )
    return msgspec.structs.replace(
        pool,
        observed_nodes=known.observed_nodes,
        short_since=known.short_since,
        devices=devices,
        domain=_domain_as_last_observed(pool.domain, known.domain),
    )


def _domain_as_last_observed(domain: PoolDomain | None, known: PoolDomain | None) -> PoolDomain | None:
    if domain is None or known is None or known.topology_key != domain.topology_key:
        return domain
    return msgspec.structs.replace(domain, complete=known.complete)


def _needed(pool: GpuPool, declared: NodePool, observed: ObservedPool) -> int:
    """Nodes that the pool should have: its declared size; where it scales, the fewest that hold its used devices."""
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


def _timed_out(since: str | None, now: float) -> bool:
    time_s = epoch_s(since)
    return time_s is not None and now >= time_s + SCALE_UP_TIMEOUT_S


def _device(device: PoolDevice, nodes: int, observed: ObservedPool, *, fixed: bool) -> PoolDevice:
    room, ours = nodes * device.count, device.allocated or 0
    if device.claim == "Synthetic":
        return msgspec.structs.replace(device, free=max(room - ours, 0))
    there, others = observed.count(device.driver, device.attributes)
    seen = min(nodes, observed.nodes) if fixed else observed.nodes
    missing = max(seen * device.count - there, 0)
    free = max(room - missing - ours - others, 0)
    claims = observed.claims_of_others(device.driver, device.attributes)[:MAX_CLAIM_SIZES]
    held = tuple(ClaimsOfOther(devices=size, claims=number) for size, number in claims)
    return msgspec.structs.replace(device, held_by_others=others, claims_of_others=held, missing=missing, free=free)
