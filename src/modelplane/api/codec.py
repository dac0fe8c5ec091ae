"""The way between plain objects and the typed kinds."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from modelplane.api.errors import InvalidObject

T = TypeVar("T", bound=msgspec.Struct)
# Made once: a decoder of a type takes as long to make as a condition to decode.
_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(dict[str, object]).decode


def decode(kind: type[T], manifest: Mapping[str, object]) -> T:
    """The typed form of a manifest. Unknown fields are ignored; defaults are filled in."""
    try:
        return msgspec.convert(manifest, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidObject(str(error)) from error


def decode_readable(kind: type[T], manifests: Iterable[Mapping[str, object]]) -> list[T]:
    """The typed forms of those that can be read: for views, where one broken object must not hide the others."""
    found: list[T] = []
    for manifest in manifests:
        try:
            found.append(decode(kind, manifest))
        except InvalidObject:
            continue
    return found


def encode(value: msgspec.Struct) -> dict[str, object]:
    """The plain form of a struct, without fields that were left at their default."""
    return _DECODE(_ENCODE(value))
