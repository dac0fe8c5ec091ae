"""The cluster's devices and their allocations, for one pass of the scheduler.

The rules are those of `modelplane.k8s.dra`. This module feeds it the cluster's objects, keeps what is costly to
prepare while the objects behind it are the same, and writes results the way kube-scheduler does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_OID, uuid5

import msgspec

from modelplane.api.objects import Json, Manifest, items_at, mapping_at, name_of, text_at, uid_of
from modelplane.k8s.dra import (
    AllocationPlan,
    Allocator,
    ClaimResult,
    DeviceClass,
    DeviceId,
    DeviceInUse,
    DeviceResult,
    DeviceUsage,
    Features,
    Inventory,
    NodeAllocation,
    Placement,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
    prepare_claims,
)
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.nodes import RESOURCE_GROUP

_FEATURES = Features()
_Versions = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class DeviceInventory:
    """Devices and allocations during one pass; `take` records an allocation."""

    inventory: Inventory
    usage: DeviceUsage
    classes: Mapping[str, DeviceClass]
    plans: dict[tuple[str, ...], AllocationPlan]

    def missing_class(self, claims: Sequence[Manifest]) -> str | None:
        """kube-scheduler's message about the first DeviceClass that does not exist; None when all exist."""
        for claim in claims:
            for request in items_at(claim, "spec", "devices", "requests"):
                for device_request in (mapping_at(request, "exactly"), *items_at(request, "firstAvailable")):
                    name = device_request.get("deviceClassName")
                    if name is not None and name not in self.classes:
                        return f"request {request.get('name')}: device class {name} does not exist"
        return None

    def allocate(self, claims: Sequence[Manifest], nodes: Sequence[Manifest]) -> Placement:
        """The first node that has devices for all the claims."""
        allocator = Allocator(self.inventory, self.usage)
        key = tuple(uid_of(claim) for claim in claims)
        placement = allocator.allocate_first(self._plan(key, claims), [decode_node(node) for node in nodes])
        if isinstance(placement, NodeAllocation):
            del self.plans[key]
        return placement

    def take(self, results: Iterable[ClaimResult]) -> None:
        devices = [device for result in results for device in result.devices]
        self.usage = self.usage.with_results(devices)

    def _plan(self, key: tuple[str, ...], claims: Sequence[Manifest]) -> AllocationPlan:
        known = self.plans.get(key)
        if known is None:
            known = self.plans[key] = prepare_claims(decode_claims(claims), self.classes.values(), _FEATURES)
        return known


class DeviceCache:
    """Builds a DeviceInventory from the store. Parsed ResourceSlices and DeviceClasses are kept until they change.

    A cluster without pending pods evicts them: of a thousand clusters few schedule at a time.
    """

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._slice_versions: _Versions | None = None
        self._inventory = Inventory((), _FEATURES)
        self._class_versions: _Versions | None = None
        self._classes: Mapping[str, DeviceClass] = {}
        self._plans: dict[tuple[str, ...], AllocationPlan] = {}

    def evict(self) -> None:
        """No pod is pending: drop what can be built again."""
        if self._slice_versions is not None:
            self._slice_versions, self._inventory = None, Inventory((), _FEATURES)
            self._class_versions, self._classes, self._plans = None, {}, {}

    def book(self) -> DeviceInventory:
        self._read_slices()
        self._read_classes()
        claims = self._store.list(RESOURCE_GROUP, "ResourceClaim")
        uids = {uid_of(claim) for claim in claims}
        self._plans = {key: kept for key, kept in self._plans.items() if uids.issuperset(key)}
        return DeviceInventory(self._inventory, DeviceUsage.of(_in_use(claims), _FEATURES), self._classes, self._plans)

    def _read_slices(self) -> None:
        slices = self._store.list(RESOURCE_GROUP, "ResourceSlice")
        if (versions := _versions(slices)) != self._slice_versions:
            self._slice_versions = versions
            self._inventory = Inventory(decode_slices(slices), _FEATURES)

    def _read_classes(self) -> None:
        classes = self._store.list(RESOURCE_GROUP, "DeviceClass")
        if (versions := _versions(classes)) != self._class_versions:
            self._class_versions = versions
            self._classes = {found.metadata.name: found for found in decode_classes(classes)}
            self._plans = {}


def allocation_of(result: ClaimResult, time: str) -> Json:
    """What `status.allocation` of the claim becomes."""
    devices = [
        {
            "request": device.request,
            "driver": device.device.driver,
            "pool": device.device.pool,
            "device": device.device.device,
            **({"adminAccess": True} if device.admin_access else {}),
            **_share(device, f"{time}/{result.claim}/{at}"),
        }
        for at, device in enumerate(result.devices)
    ]
    allocation: Json = {"devices": {"results": devices}, "allocationTimestamp": time}
    if result.node_selector is not None:
        selector = msgspec.to_builtins(result.node_selector)
        allocation["nodeSelector"] = without_nulls(selector)
    return allocation


def _share(device: DeviceResult, key: str) -> Json:
    """What tells the share of a device from other shares. The id is a UUID that the same share gets again."""
    if device.consumed_capacity is None:
        return {}
    consumed = {name: str(amount) for name, amount in device.consumed_capacity.items()}
    return {"shareID": str(uuid5(NAMESPACE_OID, f"{device.device}/{key}")), "consumedCapacity": consumed}


def devices_of(claim: Manifest) -> list[DeviceId]:
    """The devices that a claim holds."""
    return [
        DeviceId(str(entry.get("driver")), str(entry.get("pool")), str(entry.get("device")))
        for entry in items_at(claim, "status", "allocation", "devices", "results")
    ]


def without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(entry) for entry in value]
    return value


def _in_use(claims: Iterable[Manifest]) -> tuple[DeviceInUse, ...]:
    documents = [dict(r) for c in claims for r in items_at(c, "status", "allocation", "devices", "results")]
    return decode_in_use(documents)


def _versions(items: Iterable[Manifest]) -> _Versions:
    return tuple((name_of(item), text_at(item, "metadata", "resourceVersion")) for item in items)
