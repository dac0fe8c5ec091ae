"""Slices prepared for allocation: quantities are parsed and devices are ready for selectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from modelplane.api.errors import InputError
from modelplane.k8s.device import Device
from modelplane.k8s.dra.attributes import Attributes
from modelplane.k8s.dra.capacity import CapacityOffer, read_offers
from modelplane.k8s.dra.nodes import NodeScope
from modelplane.k8s.dra.outcome import DeviceId
from modelplane.k8s.dra.resources import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Counter,
    CounterConsumption,
    CounterSet,
    DeviceTaint,
    ResourceSlice,
    SliceDevice,
    SliceSpec,
)
from modelplane.k8s.quantity import quantity_from_json

PoolKey: TypeAlias = tuple[str, str]
CounterKey: TypeAlias = tuple[str, str]


class DeviceShape:
    """The shape of all devices that no selector can distinguish; compared by identity, so it is a cheap key."""

    __slots__ = ("device",)

    def __init__(self, device: Device) -> None:
        self.device = device


@dataclass(frozen=True, slots=True, eq=False)
class DeviceOffer:
    """One device of a slice.

    `fits_by_itself`: it always has capacity for a subrequest without amounts. `scope` is its own node selection, None
    if the slice's counts. Counters are in billionths.
    """

    id: DeviceId
    shape: DeviceShape
    attributes: Attributes
    capacity: tuple[CapacityOffer, ...]
    counter_sets: tuple[str, ...]
    counters: tuple[tuple[CounterKey, int], ...]
    blocking_taints: tuple[DeviceTaint, ...]
    scope: NodeScope | None
    slice_scope: NodeScope
    shareable: bool
    fits_by_itself: bool
    binds_to_node: bool
    binding_conditions: tuple[str, ...] | None
    binding_failure_conditions: tuple[str, ...]

    @property
    def effective_scope(self) -> NodeScope:
        """The nodes of a pod that uses the device."""
        return self.slice_scope if self.scope is None else self.scope


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A slice with its devices prepared. `declares_device_scopes`: the field is set, to any value."""

    name: str
    pool: PoolKey
    generation: int
    slices_in_pool: int
    scope: NodeScope
    declares_device_scopes: bool
    has_device_scopes: bool
    offers: tuple[DeviceOffer, ...]
    counter_sets: tuple[tuple[str, Mapping[str, int]], ...]


def prepare_slices(slices: Iterable[ResourceSlice], *, list_attributes: bool) -> list[Slice]:
    """Prepare slices in the order given; InputError names the slice and the device that cannot be read."""
    shapes: dict[object, DeviceShape] = {}
    return [_prepare_slice(item, shapes, list_attributes=list_attributes) for item in slices]


def _prepare_slice(item: ResourceSlice, shapes: dict[object, DeviceShape], *, list_attributes: bool) -> Slice:
    spec = item.spec
    scope = NodeScope.of(node_name=spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)
    offers: list[DeviceOffer] = []
    for device in spec.devices or ():
        try:
            offers.append(_prepare_offer(device, spec, scope, shapes, list_attributes=list_attributes))
        except InputError as error:
            raise InputError(f"slice {item.metadata.name}, device {device.name}: {error}") from error
    return Slice(
        item.metadata.name,
        (spec.driver, spec.pool.name),
        spec.pool.generation,
        spec.pool.resource_slice_count,
        scope,
        spec.per_device_node_selection is not None,
        spec.per_device_node_selection is True,
        tuple(offers),
        tuple(_read_counter_set(counter_set) for counter_set in spec.shared_counters or ()),
    )


def _prepare_offer(
    device: SliceDevice,
    spec: SliceSpec,
    slice_scope: NodeScope,
    shapes: dict[object, DeviceShape],
    *,
    list_attributes: bool,
) -> DeviceOffer:
    capacity = read_offers(device.capacity or {})
    consumptions = device.consumes_counters or ()
    return DeviceOffer(
        DeviceId(spec.driver, spec.pool.name, device.name),
        _shape(device, spec.driver, capacity, shapes, list_attributes=list_attributes),
        device.attributes or {},
        capacity,
        tuple(consumption.counter_set for consumption in consumptions),
        tuple(counter for consumption in consumptions for counter in _read_consumption(consumption)),
        tuple(taint for taint in device.taints or () if taint.effect in {NO_SCHEDULE, NO_EXECUTE}),
        _own_scope(device, spec),
        slice_scope,
        device.allow_multiple_allocations is True,
        device.allow_multiple_allocations is not True and all(offer.policy is None for offer in capacity),
        device.binds_to_node is True,
        device.binding_conditions,
        device.binding_failure_conditions or (),
    )


def _shape(
    device: SliceDevice,
    driver: str,
    capacity: tuple[CapacityOffer, ...],
    shapes: dict[object, DeviceShape],
    *,
    list_attributes: bool,
) -> DeviceShape:
    seen = Device.from_parts(
        driver,
        device.attributes or {},
        {offer.name: offer.value for offer in capacity},
        allow_multiple_allocations=device.allow_multiple_allocations is True,
        list_attributes=list_attributes,
    )
    return shapes.setdefault(seen.shape, DeviceShape(seen))


def _own_scope(device: SliceDevice, spec: SliceSpec) -> NodeScope | None:
    if spec.per_device_node_selection is not True:
        return None
    return NodeScope.of(node_name=device.node_name, all_nodes=device.all_nodes, selector=device.node_selector)


def _read_counter_set(counter_set: CounterSet) -> tuple[str, Mapping[str, int]]:
    counters = counter_set.counters or {}
    return counter_set.name, {name: _read_counter(counter) for name, counter in counters.items()}


def _read_consumption(consumption: CounterConsumption) -> Iterable[tuple[CounterKey, int]]:
    for name, counter in (consumption.counters or {}).items():
        yield (consumption.counter_set, name), _read_counter(counter)


def _read_counter(counter: Counter) -> int:
    """A counter's value in billionths: counters are only ever added and compared."""
    nanos = quantity_from_json(counter.value).nanos
    if nanos is None:
        raise InputError("a counter's value is too large to count with")
    return nanos
