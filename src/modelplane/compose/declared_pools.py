"""The pools of an InferenceCluster as they are declared, with what its replicas hold of them."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from modelplane.api.models import GpuPool, InferenceClass, InferenceCluster, ModelReplica, NodePool, PoolDevice
from modelplane.compose.fabric_domains import pool_domain
from modelplane.compose.gang import domain_fault


def held_devices(replicas: Iterable[ModelReplica]) -> Counter[tuple[str, str]]:
    """Devices that replicas hold, by pool and DeviceClass."""
    held: Counter[tuple[str, str]] = Counter()
    for replica in replicas:
        for engine in replica.spec.engines:
            for member in engine.members:
                for wanted in member.device_requests:
                    pods = engine.copies * member.nodes
                    held[member.node_pool_name, wanted.device_class_name] += pods * wanted.count
    return held


def declared_pool(
    cluster: InferenceCluster,
    pool: NodePool,
    found: InferenceClass | None,
    known: GpuPool | None,
    held: Counter[tuple[str, str]],
) -> GpuPool | None:
    nodes = pool.max_node_count if pool.max_node_count is not None else pool.node_count
    if found is None:
        return known
    devices = tuple(
        PoolDevice(
            name=device.name,
            claim=device.claim,
            driver=device.driver,
            device_class_name=device.device_class_name,
            count=device.count,
            devices_per_value=device.devices_per_value,
            attributes=device.attributes,
            capacity=device.capacity,
            consumes_counters=device.consumes_counters,
            allow_multiple_allocations=device.allow_multiple_allocations,
            allocated=_allocated(device.device_class_name, pool.name, held),
            free=max(nodes * device.count - _allocated(device.device_class_name, pool.name, held), 0),
        )
        for device in found.spec.devices
    )
    cost = found.spec.cost
    return GpuPool(
        name=pool.name,
        class_name=pool.class_name,
        nodes=nodes,
        price_per_node_hour=cost.price_per_node_hour if cost else None,
        currency=cost.currency if cost else None,
        domain=pool_domain(pool, domain_fault(cluster)),
        node_resources=found.spec.node_resources,
        shared_counters=found.spec.shared_counters,
        devices=devices,
    )


def _allocated(device_class: str | None, pool: str, held: Counter[tuple[str, str]]) -> int:
    return held[pool, device_class] if device_class else 0


def without_free(pool: GpuPool) -> GpuPool:
    devices = tuple(msgspec.structs.replace(device, free=0) for device in pool.devices)
    return msgspec.structs.replace(pool, devices=devices)


def without_nodes(pool: GpuPool) -> GpuPool:
    return msgspec.structs.replace(without_free(pool), nodes=0)
