"""Publishes the hardware: Nodes, the ResourceSlices of their drivers, and DeviceClasses.

This stands for the cloud that makes nodes and for the DRA drivers on them. Nodes that a pool no longer has are removed,
highest index first; what ran there is lost. A cluster whose pools were never set keeps its nodes.

Fields of a Node that others own are kept: unschedulable, taints of the node lifecycle, annotations, conditions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from modelplane.api.labels import GPU_TAINT, GPU_TAINTS, POOL
from modelplane.api.objects import (
    Json,
    Manifest,
    int_at,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.controller import ControllerContext, is_about
from modelplane.sim.cluster.objects import annotation, controller_reference
from modelplane.sim.cluster.pools import (
    NodePoolSpec,
    class_expression,
    device_classes,
    drivers_of,
    published_counters,
    published_devices,
)
from modelplane.sim.cluster.settings import FAULTY_DEVICES

RESOURCE_API = "resource.k8s.io/v1"
RESOURCE_GROUP = "resource.k8s.io"
PUBLISHED = "sim.modelplane.ai/published"
"""Label on DeviceClasses that belong to the pools, to tell them from others."""
LIFECYCLE_TAINTS = "node.kubernetes.io/"

_POD_NETWORK = 10 << 24 | 128 << 16  # 10.128.0.0/9 in blocks of 256 addresses, one for each node
_KUBELET = "v1.36.0"
_BLOCKS = 1 << 15
_MOST_DEVICES, _MOST_DEVICES_WITH_COUNTERS, _MOST_SETS = 128, 64, 8  # of a ResourceSlice


_SYSTEM = NodePoolSpec(name="system", nodes=0)


class Nodes:
    """Makes the published hardware equal to the pools."""

    name = "nodes"
    kinds = frozenset({("", "Node"), (RESOURCE_GROUP, "ResourceSlice"), (RESOURCE_GROUP, "DeviceClass")})

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self._pools: tuple[NodePoolSpec, ...] | None = None
        self.key = ObjectRef("", "Node", "", "")

    def set_pools(self, pools: Iterable[NodePoolSpec]) -> None:
        known = {pool.name: pool.devices for pool in self._pools or ()}
        self._pools = tuple(
            replace(pool, devices=known.get(pool.name)) if pool.devices is None else pool for pool in pools
        )

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        ours = is_about(change, "", "Node") or (
            change.ref.group == RESOURCE_GROUP and change.ref.kind in {"ResourceSlice", "DeviceClass"}
        )
        return (self.key,) if ours else ()

    def reconcile(self, _ref: ObjectRef) -> Outcome:
        if self._pools is None:
            return Done()
        wanted = {pool.node_name(index): (pool, index) for pool in self._pools for index in range(pool.nodes)}
        self._publish_system_nodes()
        for item in self._store.list("", "Node"):
            if name_of(item) not in wanted and POOL in labels_of(item):
                self._store.delete(ref_of(item))
        for name, (pool, index) in wanted.items():
            node = self._publish_node(name, pool, index)
            if pool.devices is not None:
                self._publish_slices(node, pool)
        self._publish_classes(self._pools)
        return Done()

    def _publish_system_nodes(self) -> None:
        for index in range(self._context.settings.system_nodes):
            name = f"{_SYSTEM.name}-{index}"
            if self._store.get(ObjectRef("", "Node", "", name)) is None:
                node = self._new_node(name, _SYSTEM, index)
                labels = {key: value for key, value in labels_of(node).items() if key != POOL}
                self._store.create(with_metadata(node, labels=labels))

    def _publish_node(self, name: str, pool: NodePoolSpec, index: int) -> Manifest:
        known = self._store.get(ObjectRef("", "Node", "", name))
        if known is None:
            return self._store.create(self._new_node(name, pool, index))
        kept = [t for t in items_at(known, "spec", "taints") if _is_kept(t, pool)]
        spec = {**mapping_at(known, "spec"), "taints": [*_taints(pool), *kept]}
        if not spec["taints"]:
            del spec["taints"]
        metadata = {**mapping_at(known, "metadata"), "labels": {**labels_of(known), **_labels(name, pool, index)}}
        return self._store.replace({**known, "metadata": metadata, "spec": spec})

    def _new_node(self, name: str, pool: NodePoolSpec, index: int) -> Json:
        block = self._free_block()
        spec: Json = {"podCIDR": block, "podCIDRs": [block], "providerID": f"sim://{self._context.cluster}/{name}"}
        if taints := _taints(pool):
            spec["taints"] = taints
        pods = {"pods": str(self._context.settings.pods_per_node)}
        status = {
            "capacity": pods,
            "allocatable": pods,
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": [ready_condition(self._context.clock.now())],
            "nodeInfo": {"kubeletVersion": _KUBELET},
        }
        return manifest("v1", "Node", name, labels=_labels(name, pool, index), spec=spec, status=status)

    def _free_block(self) -> str:
        taken = {text_at(item, "spec", "podCIDR") for item in self._store.list("", "Node")}
        blocks = (_block(number) for number in range(_BLOCKS))
        return next(block for block in blocks if block not in taken)

    def _publish_slices(self, node: Manifest, pool: NodePoolSpec) -> None:
        drivers = drivers_of(pool)
        wanted = {name: content for driver in drivers for name, content in _slices(node, driver, pool).items()}
        known = {
            name_of(item): item
            for item in self._store.list(RESOURCE_GROUP, "ResourceSlice", labels={PUBLISHED: name_of(node)})
        }
        for name in known.keys() - wanted.keys():
            self._store.delete(ref_of(known[name]))
        for driver in drivers:
            self._publish_pool(node, {n: spec for n, spec in wanted.items() if spec["driver"] == driver}, known)

    def _publish_pool(self, node: Manifest, wanted: Mapping[str, Json], known: Mapping[str, Manifest]) -> None:
        """All slices of a driver's pool have one generation."""
        current = {name: known[name] for name in wanted if name in known}
        if current.keys() == wanted.keys() and all(
            _content(item) == wanted[name] and _owner_uid(item) == uid_of(node) for name, item in current.items()
        ):
            return
        generation = max((int_at(item, "spec", "pool", "generation") for item in current.values()), default=0) + 1
        for name, content in wanted.items():
            item = _slice(name, node, content, generation=generation, count=len(wanted))
            if name in known:
                self._store.replace(item)
            else:
                self._store.create(item)

    def _publish_classes(self, pools: Sequence[NodePoolSpec]) -> None:
        classes = device_classes(pools)
        complete = all(pool.devices is not None for pool in pools)
        for item in self._store.list(RESOURCE_GROUP, "DeviceClass", labels={PUBLISHED: "true"}):
            if complete and name_of(item) not in classes:
                self._store.delete(ref_of(item))
        for name, drivers in classes.items():
            known = self._store.get(ObjectRef(RESOURCE_GROUP, "DeviceClass", "", name))
            if known is None:
                self._store.create(_device_class(name, class_expression(name, drivers, pools)))
            elif labels_of(known).get(PUBLISHED) == "true":
                self._store.replace(_device_class(name, class_expression(name, drivers, pools)))


_FAULT: Json = {"key": "sim.modelplane.ai/fault", "value": "xid-79", "effect": "NoSchedule"}
"""As a driver taints a device whose health check failed."""


def ready_condition(now_s: float) -> Json:
    """The Ready condition of a healthy node."""
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastTransitionTime": timestamp(now_s),
    }


def _labels(name: str, pool: NodePoolSpec, index: int) -> dict[str, str]:
    labels = {POOL: pool.name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    if pool.zones:
        labels["topology.kubernetes.io/zone"] = pool.zones[index % len(pool.zones)]
    if pool.domain is not None:
        labels[pool.domain.topology_key] = f"{pool.name}-domain-{index // pool.domain.node_count}"
    return labels


def _taints(pool: NodePoolSpec) -> list[Json]:
    taints: list[Json] = [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
        for taint in pool.taints
    ]
    known = {GPU_TAINTS.get(device.driver.partition(".")[2], "") for device in pool.claimable} - {""}
    vendors = known or {GPU_TAINT for _ in pool.claimable}
    stated = {str(taint["key"]) for taint in taints}
    taints += [{"key": key, "value": "present", "effect": "NoSchedule"} for key in sorted(vendors - stated)]
    return taints


def _is_kept(taint: Mapping[str, object], pool: NodePoolSpec) -> bool:
    """The node lifecycle's taints, and that of devices which are not known to have gone."""
    key = str(taint.get("key"))
    return key.startswith(LIFECYCLE_TAINTS) or (key in GPU_TAINTS.values() and pool.devices is None)


def _slices(node: Manifest, driver: str, pool: NodePoolSpec) -> dict[str, Json]:
    """What the slices of a driver's pool say, by name. Counters are in slices of their own."""
    name = f"{name_of(node)}-{driver}"
    faulty = set(filter(None, annotation(node, FAULTY_DEVICES).split(",")))
    devices = [
        {**each, "taints": [_FAULT]} if each["name"] in faulty else each for each in published_devices(pool, driver)
    ]
    counters = published_counters(pool, driver)
    size = _MOST_DEVICES_WITH_COUNTERS if counters else _MOST_DEVICES
    parts: list[Json] = [{"devices": devices[at : at + size]} for at in range(0, len(devices), size)]
    parts += [{"sharedCounters": counters[at : at + _MOST_SETS]} for at in range(0, len(counters), _MOST_SETS)]
    return {name if not at else f"{name}-{at}": {"driver": driver, **part} for at, part in enumerate(parts)}


def _content(item: Manifest) -> Json:
    spec = mapping_at(item, "spec")
    return {key: spec[key] for key in ("driver", "devices", "sharedCounters") if key in spec}


def _slice(name: str, node: Manifest, content: Json, *, generation: int, count: int) -> Json:
    item = manifest(
        RESOURCE_API,
        "ResourceSlice",
        name,
        labels={PUBLISHED: name_of(node)},
        spec={
            **content,
            "nodeName": name_of(node),
            "pool": {"name": name_of(node), "generation": generation, "resourceSliceCount": count},
        },
    )
    owner = controller_reference(node, block_deletion=False)
    return {**item, "metadata": {**mapping_at(item, "metadata"), "ownerReferences": [owner]}}


def _owner_uid(item: Manifest) -> str:
    return next((str(owner.get("uid")) for owner in items_at(item, "metadata", "ownerReferences")), "")


def _device_class(name: str, expression: str) -> Json:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return manifest(RESOURCE_API, "DeviceClass", name, labels={PUBLISHED: "true"}, spec=spec)


def _block(number: int) -> str:
    start = _POD_NETWORK + (number << 8)
    return f"{start >> 24 & 255}.{start >> 16 & 255}.{start >> 8 & 255}.0/24"
