"""How much of the fleet is used, for how many replicas and requests, and at which price.

Everything is read from objects, so it is the same on every host. What no object says is None and never zero: requests
are measured for endpoints of deployments whose canary is analysed, and a price is that of the InferenceClass.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from modelplane.api.codec import decode_readable
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.meta import ClusterName
from modelplane.api.models import (
    EndpointTraffic,
    GpuPool,
    InferenceCluster,
    ModelDeployment,
    ModelReplica,
    PoolDevice,
)
from modelplane.api.objects import Manifest, labels_of, namespace_of
from modelplane.compose.canary_analysis import endpoint_traffic
from modelplane.compose.fleet_snapshot import fleet_of
from modelplane.compose.free_parts import counted_once
from modelplane.placement.snapshot import Fleet
from modelplane.views.health import reported_health
from modelplane.views.inputs import FleetManifests
from modelplane.views.plan import price_of
from modelplane.views.states import READY

_DIGITS = 6
_Item = TypeVar("_Item")
_Name = tuple[str, str]
"""Namespace and deployment, or cluster and pool."""


class DeviceLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Devices by who has them. Together they are all, unless `used` is not known."""

    devices: int = 0
    used: int | None = 0
    """By replicas. None where devices are shared: the status counts their shares, and not who has which."""
    others: int = 0
    free: int = 0
    missing: int = 0
    """Those that no driver publishes."""
    lost: int = 0
    """Those that nobody holds on a cluster that does not answer."""


class HourlyPrice(msgspec.Struct, frozen=True, rename="camel"):
    per_hour: float
    currency: str


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster: str
    pool: str
    class_name: str
    nodes: int
    """Those that are there, where that was observed."""
    load: DeviceLoad
    replicas: int
    ready_replicas: int
    price: HourlyPrice | None
    """Of its nodes, used or not."""


class ClassLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    class_name: str
    clusters: int
    nodes: int
    load: DeviceLoad
    price: HourlyPrice | None


class MeasuredTraffic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What clients got from the endpoints that were measured."""

    endpoints: int
    requests_per_second: float
    """The mean of the window that was measured."""
    errors_per_second: float
    ttft_p95_ms: int | None
    """Of the slowest endpoint: that of all requests together is not above it."""
    latency_p95_ms: int | None


class DeploymentLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    replicas: int
    ready_replicas: int
    devices: int
    endpoints: int
    traffic: MeasuredTraffic | None
    price: HourlyPrice | None
    """Of the parts of nodes that its replicas take."""


class FleetLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    classes: tuple[ClassLoad, ...] = ()
    pools: tuple[PoolLoad, ...] = ()
    deployments: tuple[DeploymentLoad, ...] = ()


def fleet_load(inputs: FleetManifests, endpoints: Sequence[Manifest]) -> FleetLoad:
    """Of the clusters, replicas and deployments, and of the ModelEndpoints. `inputs.now` is when."""
    replicas = decode_readable(ModelReplica, inputs.replicas)
    clusters = decode_readable(InferenceCluster, inputs.clusters)
    placed = _by_name((place, item) for item in replicas for place in _places(item))
    # As their statuses say: a cluster that was never observed has no devices yet, and may lack its class.
    fleet = fleet_of(inputs.clusters, inputs.replicas, inputs.caches)
    pools = tuple(_pool(cluster, pool, placed, fleet) for cluster in clusters for pool in cluster.status.gpu_pools)
    owned = _by_name((_owner(item), item) for item in replicas)
    served = _by_name((_served(item), item) for item in endpoints)
    deployments = decode_readable(ModelDeployment, inputs.deployments)
    return FleetLoad(
        classes=tuple(_class(name, pools) for name in sorted({pool.class_name for pool in pools})),
        pools=pools,
        deployments=tuple(_deployment(item, owned, served, fleet, inputs.now) for item in deployments),
    )


def _by_name(found: Iterable[tuple[_Name, _Item]]) -> Mapping[_Name, Sequence[_Item]]:
    lists: defaultdict[_Name, list[_Item]] = defaultdict(list)
    for name, item in found:
        lists[name].append(item)
    return lists


def _pool(
    cluster: InferenceCluster, pool: GpuPool, placed: Mapping[_Name, Sequence[ModelReplica]], fleet: Fleet
) -> PoolLoad:
    name = ClusterName(cluster.metadata.name)
    there = placed.get((name, pool.name), ())
    nodes = pool.nodes if pool.observed_nodes is None else pool.observed_nodes
    price = next((each.price for each in fleet.infos[name].pools if each.name == pool.name), None)
    return PoolLoad(
        cluster=name,
        pool=pool.name,
        class_name=pool.class_name or "",
        nodes=nodes,
        load=_device_load(pool, lost=cluster.status.lost_devices is not None),
        replicas=len(there),
        ready_replicas=sum(_is_ready(item) for item in there),
        price=None if price is None else _price(price.per_node_hour * nodes, price.currency),
    )


def _device_load(pool: GpuPool, *, lost: bool) -> DeviceLoad:
    kinds = counted_once(pool.devices)
    total = sum(pool.nodes * kind.count for kind in kinds)
    used = _used(pool.nodes, kinds, lost=lost)
    others = sum(kind.held_by_others or 0 for kind in kinds)
    missing = sum(kind.missing or 0 for kind in kinds)
    return DeviceLoad(
        devices=total,
        used=used,
        others=others,
        free=0 if lost else sum(kind.free or 0 for kind in kinds),
        missing=missing,
        lost=max(total - (used or 0) - others - missing, 0) if lost else 0,
    )


def _used(nodes: int, kinds: Sequence[PoolDevice], *, lost: bool) -> int | None:
    """Whole devices. Kinds of one DeviceClass have one count, and of partitions the whole ones that are touched."""
    if any(kind.allow_multiple_allocations for kind in kinds):
        return None
    divided = [kind for kind in kinds if kind.consumes_counters]
    if divided and lost:
        return None
    by_class = {kind.device_class_name: kind.allocated or 0 for kind in kinds if not kind.consumes_counters}
    touched = (
        nodes * kind.count - (kind.free or 0) - (kind.held_by_others or 0) - (kind.missing or 0) for kind in divided
    )
    return sum(by_class.values()) + sum(max(count, 0) for count in touched)


def _class(name: str, pools: Iterable[PoolLoad]) -> ClassLoad:
    ours = [pool for pool in pools if pool.class_name == name]
    return ClassLoad(
        class_name=name,
        clusters=len({pool.cluster for pool in ours}),
        nodes=sum(pool.nodes for pool in ours),
        load=sum_of_loads([pool.load for pool in ours]),
        price=sum_of_prices([pool.price for pool in ours]),
    )


def sum_of_loads(loads: Sequence[DeviceLoad]) -> DeviceLoad:
    known = [load.used for load in loads if load.used is not None]
    return DeviceLoad(
        devices=sum(load.devices for load in loads),
        used=sum(known) if len(known) == len(loads) else None,
        others=sum(load.others for load in loads),
        free=sum(load.free for load in loads),
        missing=sum(load.missing for load in loads),
        lost=sum(load.lost for load in loads),
    )


def _deployment(
    item: ModelDeployment,
    owned: Mapping[_Name, Sequence[ModelReplica]],
    served: Mapping[_Name, Sequence[Manifest]],
    fleet: Fleet,
    now: float,
) -> DeploymentLoad:
    key = item.metadata.key
    ours = owned.get((key.namespace, key.name), ())
    reached = served.get((key.namespace, key.name), ())
    prices = [price_of(placed, fleet.infos[placed.cluster]) for placed in fleet.owned_by(key)]
    return DeploymentLoad(
        namespace=key.namespace,
        name=key.name,
        replicas=item.spec.replicas,
        ready_replicas=item.status.ready_replicas or 0,
        devices=sum(devices_of(each) for each in ours),
        endpoints=len(reached),
        traffic=measured_traffic([found for each in reached if (found := endpoint_traffic(each, now)) is not None]),
        price=sum_of_prices([HourlyPrice(*price) if price else None for price in prices]),
    )


def _owner(replica: ModelReplica) -> _Name:
    return replica.metadata.namespace, replica.spec.deployment.name if replica.spec.deployment else ""


def _served(endpoint: Manifest) -> _Name:
    return namespace_of(endpoint), labels_of(endpoint).get(DEPLOYMENT, "")


def measured_traffic(found: Sequence[EndpointTraffic]) -> MeasuredTraffic | None:
    """Of several endpoints together; None where none was measured."""
    if not found:
        return None
    return MeasuredTraffic(
        endpoints=len(found),
        requests_per_second=round(sum(each.requests / each.window_seconds for each in found), _DIGITS),
        errors_per_second=round(sum(each.errors / each.window_seconds for each in found), _DIGITS),
        ttft_p95_ms=_slowest(each.ttft_p95_milliseconds for each in found),
        latency_p95_ms=_slowest(each.latency_p95_milliseconds for each in found),
    )


def _slowest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def devices_of(replica: ModelReplica) -> int:
    """Devices that the pods of a replica claim."""
    return sum(
        engine.copies * member.nodes * request.count
        for engine in replica.spec.engines
        for member in engine.members
        for request in member.device_requests
    )


def _places(replica: ModelReplica) -> set[_Name]:
    members = (member for engine in replica.spec.engines for member in engine.members)
    return {(replica.spec.cluster_name, member.node_pool_name) for member in members}


def _is_ready(replica: ModelReplica) -> bool:
    return reported_health(replica.metadata, replica.status).state == READY


def sum_of_prices(prices: Sequence[HourlyPrice | None]) -> HourlyPrice | None:
    """None where one is not known or the currencies differ: a part of a price looks like the whole."""
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices) or len({price.currency for price in known}) > 1:
        return None
    return _price(sum(price.per_hour for price in known), known[0].currency)


def _price(per_hour: float, currency: str) -> HourlyPrice:
    return HourlyPrice(round(per_hour, _DIGITS), currency)
