"""Device attributes as constraints compare them: by type and by text, not as selectors do.

A constraint compares version attributes as they are written, build metadata included, and never mixes types.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

_SCALARS = ("string", "int", "bool", "version")
_LISTS = ("ints", "bools", "strings", "versions")


class DeviceAttribute(NamedTuple):
    """One attribute value. `kind` is empty where the value has a form that this release does not know."""

    kind: str
    scalar: object
    members: frozenset[object]


# As published: name, the kind that is set, its value. Most are never read.
Attributes: TypeAlias = Mapping[str, Mapping[str, object]]


def _read(value: Mapping[str, object]) -> DeviceAttribute:
    for kind in _LISTS:
        members = value.get(kind)
        if isinstance(members, list | tuple) and members:
            return DeviceAttribute(kind, None, frozenset(members))
    for kind in _SCALARS:
        scalar = value.get(kind)
        if scalar is not None:
            return DeviceAttribute(kind, scalar, frozenset((scalar,)))
    return DeviceAttribute("", None, frozenset())


def find_attribute(attributes: Attributes, driver: str, name: str) -> DeviceAttribute | None:
    """The attribute a constraint names: under exactly that name, else by its bare id where the domain is the driver."""
    found = attributes.get(name)
    if found is None:
        domain, slash, identifier = name.partition("/")
        found = attributes.get(identifier) if slash and domain == driver else None
    return None if found is None else _read(found)


def same_scalar(left: DeviceAttribute, right: DeviceAttribute) -> bool:
    """Whether both are scalars of one type with one value; lists and unknown forms equal nothing."""
    return left.scalar is not None and left.kind == right.kind and left.scalar == right.scalar


def base_kind(attribute: DeviceAttribute) -> str:
    """The element type, for lists and scalars."""
    return attribute.kind.removesuffix("s")
