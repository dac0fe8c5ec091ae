"""Kinds of devices for placement, from how a class or a pool describes them.

The devices of a kind that draws on counters are in the sets of a node in turn, as many in each: eight GPUs are one for
each of eight sets, 56 partitions seven. A kind that does not come out even, or draws on what is not there, cannot be
read.
"""

from collections.abc import Iterator, Mapping

import msgspec

from modelplane.api.errors import InputError
from modelplane.api.models import Attribute, Capacity, ConsumedCounters, SharedCounters
from modelplane.k8s.device import Device
from modelplane.k8s.dra.capacity import nanos_of, read_offers
from modelplane.k8s.dra.resources import DeviceCapacity
from modelplane.k8s.quantity import QuantityError, quantity_from_json
from modelplane.placement.hardware import DeviceKind
from modelplane.placement.partitions import DEVICES, CounterDraw, Partition

_NANOS = 10**9


class DeviceDescription(msgspec.Struct, frozen=True, array_like=True):
    name: str
    claim: str | None
    driver: str
    device_class: str | None
    count: int
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    consumes: tuple[ConsumedCounters, ...]
    shareable: bool
    per_value: Mapping[str, int]


def read_kind(device: DeviceDescription, counters: tuple[SharedCounters, ...]) -> DeviceKind:
    """InputError where the description makes no sense."""
    if device.shareable and device.consumes:
        raise InputError("consumesCounters and allowMultipleAllocations cannot be combined")
    published = Device.from_dict(device.driver, _published(device))
    capacity = msgspec.json.encode(device.capacity)
    try:
        read_offers(msgspec.json.decode(capacity, type=dict[str, DeviceCapacity]))
    except QuantityError as error:
        raise InputError(f"capacity: {error}") from error
    return DeviceKind(
        device.name,
        published,
        device.count,
        device.device_class if device.claim != "Synthetic" else None,
        _partition(device, device.consumes[0], counters) if device.consumes else None,
        capacity,
        tuple(sorted(device.per_value.items())),
    )


def _published(device: DeviceDescription) -> dict[str, object]:
    return {
        "attributes": msgspec.to_builtins(device.attributes),
        "capacity": msgspec.to_builtins(device.capacity),
        "allowMultipleAllocations": device.shareable,
    }


def _partition(
    device: DeviceDescription, consumed: ConsumedCounters, counters: tuple[SharedCounters, ...]
) -> Partition:
    found = next((each for each in counters if each.name == consumed.counter_set), None)
    if found is None:
        raise InputError(f"draws on counter set {consumed.counter_set}, which does not exist")
    in_each, rest = divmod(device.count, found.count)
    if rest:
        raise InputError(f"{device.count} devices cannot be divided evenly among {found.count} counter sets")
    devices = CounterDraw(f"{DEVICES}{device.name}", _NANOS, in_each * _NANOS)
    return Partition(found.name, found.count, tuple(sorted((devices, *_draws(consumed, found)))))


def _draws(consumed: ConsumedCounters, found: SharedCounters) -> Iterator[CounterDraw]:
    for name, counter in consumed.counters.items():
        if name not in found.counters:
            raise InputError(f"draws on counter {name} of set {found.name}, which does not exist")
        drawn, available = _nanos(counter.value), _nanos(found.counters[name].value)
        if drawn > available:
            raise InputError(f"draws {counter.value} of counter {name}, and a set has {found.counters[name].value}")
        yield CounterDraw(name, drawn, available)


def _nanos(value: str) -> int:
    try:
        return nanos_of(quantity_from_json(value))
    except QuantityError as error:
        raise InputError(f"consumesCounters: {error}") from error
