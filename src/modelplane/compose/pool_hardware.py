"""Pools and their devices as placement reads them. Equal descriptions are interned as one value."""

from functools import lru_cache

import msgspec

from modelplane.api.errors import InputError, InvalidObject
from modelplane.api.meta import PoolName
from modelplane.api.models import (
    ClassDevice,
    GpuPool,
    InferenceClass,
    NodePool,
    NodeResources,
    PoolDevice,
    PoolDomain,
    SharedCounters,
)
from modelplane.api.timestamps import epoch_s
from modelplane.compose.device_kinds import DeviceDescription, read_kind
from modelplane.placement.hardware import DeviceKind, Domain, Hardware
from modelplane.placement.values import (
    Pool,
    Price,
)

_MAX_HARDWARE = 4_096
_MAX_POOLS = 16_384
_encode = msgspec.json.Encoder().encode


def class_kinds(resource: InferenceClass) -> tuple[DeviceKind, ...]:
    found = _hardware(_encode(_hardware_description(resource.spec.shared_counters, resource.spec.devices)))
    if found.fault:
        raise InvalidObject(f"spec.devices: {found.fault}")
    return found.kinds


def pool_of(pool: GpuPool, declared: NodePool | None) -> Pool:
    """Without the counts of its status that placement ignores."""
    observed = pool.observed_nodes
    description = (
        pool.name,
        pool.nodes,
        observed,
        pool.price_per_node_hour,
        pool.currency,
        _hardware_description(pool.shared_counters, pool.devices),
        (declared.node_count, declared.max_node_count) if declared is not None else None,
        [(device.name, others) for device in pool.devices if (others := _unavailable(device))],
        [(device.name, each.devices, each.claims) for device in pool.devices for each in device.claims_of_others],
        pool.short_since,
        pool.domain,
        pool.node_resources,
    )
    return _described_pool(_encode(description))


def _unavailable(device: PoolDevice) -> int:
    """Devices that replicas cannot claim: others hold them, or no driver publishes them."""
    return (device.held_by_others or 0) + (device.missing or 0)


def _hardware_description(
    counters: tuple[SharedCounters, ...], devices: tuple[ClassDevice, ...] | tuple[PoolDevice, ...]
) -> tuple[object, ...]:
    return counters, [_description(device) for device in devices]


def _description(device: ClassDevice | PoolDevice) -> tuple[object, ...]:
    """The fields of a device that placement reads."""
    return (
        device.name,
        device.claim,
        device.driver,
        device.device_class_name,
        device.count,
        device.attributes,
        device.capacity,
        device.consumes_counters,
        device.allow_multiple_allocations,
        device.devices_per_value,
    )


class _PoolDescription(msgspec.Struct, frozen=True, array_like=True):
    name: PoolName
    nodes: int
    observed: int | None
    price: str | None
    currency: str | None
    devices: msgspec.Raw
    declared: tuple[int, int | None] | None
    held_by_others: tuple[tuple[str, int], ...]
    claims_of_others: tuple[tuple[str, int, int], ...]
    short_since: str | None
    domain: PoolDomain | None
    node_resources: NodeResources | None


@lru_cache(maxsize=_MAX_POOLS)
def _described_pool(description: bytes) -> Pool:
    pool = msgspec.json.decode(description, type=_PoolDescription)
    nodes, now = _nodes(pool)
    declared = _declared_nodes(pool)
    return Pool(
        pool.name,
        nodes,
        _in_domains(_hardware(bytes(pool.devices)), pool.domain),
        price=_price(pool.price, pool.currency) if pool.price else None,
        nodes_now=now,
        desired_nodes=declared if declared > nodes else None,
        held_by_others=pool.held_by_others,
        claims_of_others=pool.claims_of_others,
        short_since=epoch_s(pool.short_since),
        domains=pool.domain.complete if pool.domain is not None else None,
        node_resources=pool.node_resources,
    )


def _in_domains(hardware: Hardware, domain: PoolDomain | None) -> Hardware:
    if domain is None:
        return hardware
    return msgspec.structs.replace(hardware, domain=Domain(domain.topology_key, domain.node_count, domain.fault or ""))


def _declared_nodes(pool: _PoolDescription) -> int:
    """The declared nodes of a pool, or its maximum where it scales."""
    if pool.declared is None:
        return 0
    size, most = pool.declared
    return size if most is None else most


def _nodes(pool: _PoolDescription) -> tuple[int, int | None]:
    """Nodes that placement counts, and the present ones where that differs.

    A pool of fixed size counts its observed nodes, a pool that scales its maximum.
    """
    if pool.declared is not None and pool.declared[1] is not None:
        present = pool.observed if pool.observed is not None else pool.declared[0]
        return max(pool.nodes, 0), None if present >= pool.nodes else present
    return (pool.nodes if pool.observed is None else pool.observed), None


class _HardwareDescription(msgspec.Struct, frozen=True, array_like=True):
    counters: tuple[SharedCounters, ...]
    devices: tuple[DeviceDescription, ...]


@lru_cache(maxsize=_MAX_HARDWARE)
def _hardware(description: bytes) -> Hardware:
    found = msgspec.json.decode(description, type=_HardwareDescription)
    kinds: list[DeviceKind] = []
    for device in found.devices:
        try:
            kinds.append(read_kind(device, found.counters))
        except InputError as error:
            return Hardware((), fault=f"device {device.name}: {error}")
    return Hardware.of(tuple(kinds))


@lru_cache(maxsize=_MAX_HARDWARE)
def _price(amount: str, currency: str | None) -> Price | None:
    try:
        return Price(float(amount), currency or "USD")
    except ValueError:
        return None
