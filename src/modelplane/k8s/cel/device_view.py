"""The variable `device`: its type, and a device as a value of it."""

from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.environment import Environment
from modelplane.k8s.cel.library.catalogue import base_functions, list_attribute_functions
from modelplane.k8s.cel.sizes import Range
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.device import Device
from modelplane.k8s.mutable_quantity import MutableQuantity

DEVICE = t.struct("kubernetes.DRADevice")
EMPTY: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates of selectors; the defaults are those of 1.36."""

    consumable_capacity: bool = True
    list_attributes: bool = False


DEFAULT_GATES = Gates()


class DomainMap(dict[str, object]):
    """Domains of a device: one that the device does not have reads as an empty map, yet is not there."""

    __slots__ = ()

    def find(self, key: object) -> tuple[bool, object]:
        """Always something."""
        return True, self.get(key, EMPTY) if isinstance(key, str) else EMPTY

    def cel_has(self, key: object) -> bool:
        """Whether the device has the domain."""
        return isinstance(key, str) and key in self

    def cel_native(self) -> dict[str, object]:
        """The plain map that is left once the value has been through an optional."""
        return dict(self)


@cache
def environment(gates: Gates, *, stored: bool) -> Environment:
    """The environment of a selector. Stored expressions see everything of the release, with any gates."""
    attribute = t.DYN if gates.list_attributes else t.ANY
    fields: dict[str, CelType] = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY)),
    }
    if gates.consumable_capacity or stored:
        fields["allowMultipleAllocations"] = t.BOOL
    functions = list_attribute_functions() if gates.list_attributes or stored else base_functions()
    return Environment(
        MappingProxyType({"device": DEVICE}), MappingProxyType({DEVICE.name: MappingProxyType(fields)}), functions
    )


def device_value(device: Device) -> dict[str, object]:
    """The device as the exact evaluator sees it; its quantities are cells that live for one evaluation."""
    capacity = {
        domain: {name: MutableQuantity(quantity) for name, quantity in inner.items()}
        for domain, inner in device.capacity.items()
    }
    return {
        "driver": device.driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": DomainMap(device.attributes),
        "capacity": DomainMap(capacity),
    }


class DeviceBounds:
    """How large the parts of a device can be: 32 entries to a map, 63 characters to a domain, 64 to a value."""

    __slots__ = ()

    def size(self, path: tuple[str, ...], _found: CelType) -> Range | None:
        """The size of what a path from `device` reaches."""
        if not path or path[0] != "device":
            return None
        node = _DEVICE_SIZES
        for name in path[1:]:
            found = node.children.get(name) or node.children.get("*")
            if found is None:
                return None
            node = found
        return 0, node.most


@dataclass(frozen=True, slots=True)
class _Bounded:
    most: int
    children: "dict[str, _Bounded]" = field(default_factory=dict)


_ENTRIES, _DOMAIN, _ID, _VALUE = 32, 63, 32, 64
_DEVICE_SIZES = _Bounded(
    0,
    {
        "driver": _Bounded(63),
        "allowMultipleAllocations": _Bounded(1),
        "attributes": _Bounded(
            _ENTRIES,
            {
                "@keys": _Bounded(_DOMAIN),
                "@values": _Bounded(
                    _ENTRIES, {"@keys": _Bounded(_ID), "@values": _Bounded(_VALUE), "*": _Bounded(_VALUE)}
                ),
                "@items": _Bounded(
                    _ENTRIES, {"@keys": _Bounded(_ID), "@values": _Bounded(_VALUE), "*": _Bounded(_VALUE)}
                ),
            },
        ),
        "capacity": _Bounded(
            _ENTRIES,
            {
                "@keys": _Bounded(_DOMAIN),
                "@values": _Bounded(_ENTRIES, {"@keys": _Bounded(_ID), "@values": _Bounded(0), "@items": _Bounded(0)}),
                "@items": _Bounded(_ENTRIES, {"@keys": _Bounded(_ID), "@values": _Bounded(0), "@items": _Bounded(0)}),
            },
        ),
    },
)
