"""From decoded YAML or JSON to the typed objects of `resources`; a wrong shape is one sentence that names the place."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from modelplane.api.errors import InputError
from modelplane.dra.allocate.resources import DeviceClass, DeviceInUse, Node, ResourceClaim, ResourceSlice

_T = TypeVar("_T")


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
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise InputError(f"{place}{path.removesuffix('`')}: {problem}") from error
