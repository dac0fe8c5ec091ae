"""From decoded YAML or JSON to the typed objects of `resources`; a wrong shape is one sentence that names the place."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from modelplane.api.errors import InputError
from modelplane.k8s.dra.resources import DeviceClass, DeviceInUse, Node, ResourceClaim, ResourceSlice

_T = TypeVar("_T")
_MAPS = frozenset({"attributes", "capacity", "counters"})


def decode_node(document: object) -> Node:
    """A v1 Node; only its name and labels are read."""
    return _convert(document, Node, "node")


def decode_slices(documents: Iterable[object]) -> tuple[ResourceSlice, ...]:
    """ResourceSlices, in the order given."""
    return tuple(_convert(document, ResourceSlice, f"slices[{index}]") for index, document in enumerate(documents))


def decode_classes(documents: Iterable[object]) -> tuple[DeviceClass, ...]:
    """DeviceClasses, in the order given."""
    return tuple(_convert(document, DeviceClass, f"classes[{index}]") for index, document in enumerate(documents))


def decode_claims(documents: Iterable[object]) -> tuple[ResourceClaim, ...]:
    """ResourceClaims, in the order given."""
    return tuple(_convert(document, ResourceClaim, f"claims[{index}]") for index, document in enumerate(documents))


def decode_in_use(documents: Iterable[object]) -> tuple[DeviceInUse, ...]:
    """Devices that other claims hold."""
    return tuple(_convert(document, DeviceInUse, f"allocated[{index}]") for index, document in enumerate(documents))


def _convert(document: object, kind: type[_T], place: str) -> _T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_without_nulls(document), kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise InputError(f"{place}{path.removesuffix('`')}: {problem}") from error


def _without_nulls(value: object, *, is_map: bool = False) -> object:
    """The document as the API reads it: a null field is absent, a null in a list or map an object with no fields."""
    if isinstance(value, dict):
        return {
            key: {} if item is None else _without_nulls(item, is_map=key in _MAPS)
            for key, item in value.items()
            if is_map or item is not None
        }
    if isinstance(value, list | tuple):
        return [{} if item is None else _without_nulls(item) for item in value]
    return value
