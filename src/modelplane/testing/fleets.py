"""Short ways to write fleets, placement requests and replicas for tests and benchmarks."""

from collections.abc import Mapping

import msgspec

from modelplane.api.meta import ClusterName, Key, PoolName, Uid
from modelplane.api.models import LabelSelector, Toleration
from modelplane.k8s.device import Device
from modelplane.placement.hardware import DeviceKind, Hardware
from modelplane.placement.matching import Claim
from modelplane.placement.request import EngineRequest, MemberRequest, NodeDeviceRequest, PlacementRequest
from modelplane.placement.values import (
    Cluster,
    Effect,
    MemberAssignment,
    Packing,
    PlacedReplica,
    PlacementTaint,
    Pool,
    PoolAssignment,
    Price,
)

DRIVER = "gpu.nvidia.com"
MAIN = "main"


def device(product: str = "H200", memory: str = "141Gi", driver: str = DRIVER) -> Device:
    return Device.from_dict(
        driver,
        {"attributes": {"productName": {"string": product}}, "capacity": {"memory": {"value": memory}}},
    )


def kind(
    name: str = "gpu",
    count: int = 8,
    *,
    memory: str = "141Gi",
    product: str = "H200",
    device_class: str | None = DRIVER,
) -> DeviceKind:
    return DeviceKind(name, device(product, memory), count, device_class)


def hardware(*kinds: DeviceKind) -> Hardware:
    return Hardware.of(kinds or (kind(),))


def pool(
    name: str = "h200",
    nodes: int = 2,
    of: Hardware | None = None,
    *,
    taints: tuple[PlacementTaint, ...] = (),
    price: float | None = None,
    nodes_now: int | None = None,
) -> Pool:
    return Pool(
        name=PoolName(name),
        nodes=nodes,
        hardware=of or hardware(),
        taints=taints,
        price=None if price is None else Price(price),
        nodes_now=nodes_now,
    )


def cluster(name: str, *pools: Pool, labels: Mapping[str, str] | None = None, **fields: object) -> Cluster:
    made = Cluster(name=ClusterName(name), pools=pools or (pool(),), labels=dict(labels or {}))
    return msgspec.structs.replace(made, **fields)


def packed(name: str, *pools: Pool) -> Cluster:
    return cluster(name, *pools, packing=Packing.BIN_PACK)


def taint(key: str, effect: str = "NoSchedule", *, value: str = "", since: float | None = None) -> PlacementTaint:
    return PlacementTaint(key, value, Effect(effect), since)


def tolerate(key: str, effect: str | None = None, *, seconds: int | None = None) -> Toleration:
    fields: dict[str, object] = {"key": key, "operator": "Exists", "effect": effect, "tolerationSeconds": seconds}
    return msgspec.convert({name: value for name, value in fields.items() if value is not None}, Toleration)


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def memory_at_least(bound: str) -> str:
    return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{bound}")) >= 0'


def product_is(name: str) -> str:
    return f'device.attributes["{DRIVER}"].productName == "{name}"'


def request(count: int = 1, *selectors: str, name: str = "gpu") -> NodeDeviceRequest:
    return NodeDeviceRequest(name, count, selectors)


def engine(
    *requests: NodeDeviceRequest, name: str = MAIN, nodes: int = 1, copies: int = 1, helpers: int = 0
) -> EngineRequest:
    """One member of `nodes` pods, and `helpers` pods that claim nothing."""
    members = [MemberRequest(nodes, requests or (request(),))]
    if helpers:
        members.append(MemberRequest(helpers, ()))
    return EngineRequest(name, copies, tuple(members))


def key(name: str = "chat", namespace: str = "team") -> Key:
    return Key(namespace, name, Uid(f"uid-{namespace}-{name}"))


def place(
    replicas: int = 1, *engines: EngineRequest, name: str = "chat", namespace: str = "team", **fields: object
) -> PlacementRequest:
    made = PlacementRequest(deployment=key(name, namespace), replicas=replicas, engines=engines or (engine(),))
    return msgspec.structs.replace(made, **fields)


def claim(count: int = 1, *selectors: str, name: str = "gpu", device_class: str | None = DRIVER) -> Claim:
    return Claim(name, device_class, count, selectors)


def assignment(pool_name: str = "h200", *claims: Claim, pods: int = 1, engine_name: str = MAIN) -> PoolAssignment:
    """The assignment of an engine with one member."""
    return PoolAssignment(engine_name, PoolName(pool_name), (MemberAssignment(pods, claims or (claim(),)),))


def replica(
    cluster_name: str,
    index: int = 0,
    *assignments: PoolAssignment,
    name: str = "chat",
    namespace: str = "team",
    **fields: object,
) -> PlacedReplica:
    made = PlacedReplica(
        deployment=key(name, namespace),
        cluster=ClusterName(cluster_name),
        index=index,
        assignments=assignments or (assignment(),),
    )
    return msgspec.structs.replace(made, **fields)
