"""The way between plain objects and the typed kinds."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from modelplane.api.errors import InvalidObject

T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: type[T], manifest: Mapping[str, object]) -> T:
    """The typed form of a manifest. Unknown fields are ignored; defaults are filled in."""
    try:
        return msgspec.convert(manifest, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidObject(str(error)) from error


def encode(value: msgspec.Struct) -> dict[str, object]:
    """The plain form of a struct, without fields that were left at their default."""
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, object])
