"""A device prepared for selectors, so that evaluation is dictionary lookups.

Names. An attribute or capacity name `domain/id` is split at its first slash; a bare name belongs to the driver's
domain. `x` and `<driver>/x` are therefore one entry, and the one listed last wins.

Faults. Upstream converts every attribute before it evaluates anything, so one unusable attribute (a version its
parser cannot read, a list while lists are off, no value at all) fails every selector on the device, even `true`.
`fault` keeps that sentence; a device without one has None.

Shape. Devices with equal `shape` are indistinguishable to any selector: evaluate one of them and the answer holds
for all. It ignores the device's own name, which no selector can read.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from modelplane.api.errors import InputError
from modelplane.k8s.quantity import Quantity, QuantityError, quantity_from_json
from modelplane.k8s.semver import Version, VersionError, parse_version

AttributeScalar: TypeAlias = str | int | bool | Version
AttributeValue: TypeAlias = AttributeScalar | tuple[AttributeScalar, ...]

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_SCALARS = ("string", "int", "bool", "version")
_LISTS = ("ints", "bools", "strings", "versions")
_EMPTY: Mapping[str, object] = MappingProxyType({})


class DeviceError(InputError):
    """A device whose description does not have the shape the API requires."""


class _Unusable(Exception):  # noqa: N818  a fault found in an attribute, not an error of the caller
    """An attribute the API admits and the evaluator cannot use."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device, as the variable `device` of a selector: domain, then id, then value."""

    driver: str
    attributes: Mapping[str, Mapping[str, AttributeValue]]
    capacity: Mapping[str, Mapping[str, Quantity]]
    allow_multiple_allocations: bool
    fault: str | None
    shape: Hashable

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.shape)

    @classmethod
    def from_dict(cls, driver: str, device: Mapping[str, object], *, list_attributes: bool = False) -> "Device":
        """The device in its resource.k8s.io/v1 form; `list_attributes` is the DRAListTypeAttributes gate."""
        capacity = {name: _capacity_value(name, entry) for name, entry in _section(device, "capacity").items()}
        return cls.from_parts(
            driver,
            _section(device, "attributes"),
            capacity,
            allow_multiple_allocations=device.get("allowMultipleAllocations") is True,
            list_attributes=list_attributes,
        )

    @classmethod
    def from_parts(
        cls,
        driver: str,
        attributes: Mapping[str, object],
        capacity: Mapping[str, Quantity],
        *,
        allow_multiple_allocations: bool = False,
        list_attributes: bool = False,
    ) -> "Device":
        """A device whose capacity was read already; attributes are still in the form of the API."""
        values: dict[str, dict[str, AttributeValue]] = {}
        fault = None
        for name, attribute in attributes.items():
            domain, identifier = split_name(name, driver)
            inner = values.setdefault(domain, {})
            try:
                inner[identifier] = _attribute_value(name, attribute, list_attributes=list_attributes)
            except _Unusable as unusable:
                fault = fault or f"attribute {name}: {unusable}"
        quantities: dict[str, dict[str, Quantity]] = {}
        for name, quantity in capacity.items():
            domain, identifier = split_name(name, driver)
            quantities.setdefault(domain, {})[identifier] = quantity
        shape = (driver, allow_multiple_allocations, fault, _attribute_shape(values), _capacity_shape(quantities))
        return cls(driver, values, quantities, allow_multiple_allocations, fault, shape)


def split_name(name: str, driver: str) -> tuple[str, str]:
    """The domain and the id of an attribute or capacity name."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _section(device: Mapping[str, object], field: str) -> Mapping[str, object]:
    section = device.get(field) or _EMPTY
    if not isinstance(section, Mapping):
        raise DeviceError(f"{field}: expected a mapping of names to values")
    return section


def _attribute_value(name: str, attribute: object, *, list_attributes: bool) -> AttributeValue:
    if not isinstance(attribute, Mapping):
        raise DeviceError(f"attributes[{name}]: expected a mapping with one of {', '.join(_SCALARS)}")
    if list_attributes:
        for kind in _LISTS:
            values = attribute.get(kind)
            if isinstance(values, list | tuple):
                return tuple(_scalar(name, kind[:-1], value) for value in values)
    for kind, value in attribute.items():
        if value is not None and kind in _SCALARS:
            return _scalar(name, kind, value)
    raise _Unusable("unsupported attribute value")


def _scalar(name: str, kind: str, value: object) -> AttributeScalar:
    if isinstance(value, str):
        if kind == "string":
            return value
        if kind == "version":
            return _version(value)
    elif isinstance(value, bool):
        if kind == "bool":
            return value
    elif kind == "int" and isinstance(value, int) and _MIN_INT64 <= value <= _MAX_INT64:
        return value
    raise DeviceError(f"attributes[{name}].{kind}: {value!r} is not a value of that type")


def _version(text: str) -> Version:
    try:
        return parse_version(text)
    except VersionError as error:
        raise _Unusable(f"parse semantic version: {error}") from error


def _capacity_value(name: str, entry: object) -> Quantity:
    if not isinstance(entry, Mapping) or entry.get("value") is None:
        raise DeviceError(f"capacity[{name}].value: missing")
    try:
        return quantity_from_json(entry["value"])
    except QuantityError as error:
        raise DeviceError(f"capacity[{name}].value: {error}") from error


def _attribute_shape(attributes: Mapping[str, Mapping[str, AttributeValue]]) -> Hashable:
    return frozenset(
        (domain, identifier, _value_shape(value))
        for domain, inner in attributes.items()
        for identifier, value in inner.items()
    )


def _capacity_shape(capacity: Mapping[str, Mapping[str, Quantity]]) -> Hashable:
    return frozenset(
        (domain, identifier, quantity.representation)
        for domain, inner in capacity.items()
        for identifier, quantity in inner.items()
    )


def _value_shape(value: AttributeValue) -> Hashable:
    # The type is part of the key because True equals 1; a version's text is because order ignores build metadata.
    if isinstance(value, tuple):
        return tuple(_value_shape(item) for item in value)
    return type(value), str(value) if isinstance(value, Version) else value
