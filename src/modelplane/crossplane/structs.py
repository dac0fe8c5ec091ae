"""The way between protobuf's Struct and plain objects, the one place where numbers are put right.

A Struct has floats only. What is whole becomes an integer again: every field of the Kubernetes API that holds a whole
number is declared as one, and a field declared as a float reads an integer just as well.

Walking a Struct costs more than a whole composition, and most of what Crossplane sends did not change since the last
call: of an object a condition, of its metadata the version. So objects are read from their bytes, and what each part
of them means, at any depth, is remembered by its bytes. Those are the bytes that this process's protobuf writes: Go
shuffles the fields of a map each time. What comes out is shared between calls: it is to be read, not changed.
"""

import struct as binary
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import xxhash
from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # it ships no types

from modelplane.crossplane.memory import Memory

MOST_REMEMBERED: Final = 64 * 1024 * 1024
"""Bytes of protobuf whose meaning is remembered, in each direction. As plain objects they take several times that."""
_SMALL: Final = 256 * 1024
"""Larger objects are walked each time: a few of them would push out everything else."""
_WORTH_IT: Final = 48
"""Smaller parts are walked as fast as they are looked up."""
_BOOKS: Final = b"managedFields"
"""Who set which field: half of every object that a server sends, and nothing here reads it."""

_encode = msgspec.json.Encoder().encode


_objects: Memory[bytes, dict[str, object]] = Memory(MOST_REMEMBERED)
_versions: Memory[tuple[str, str], dict[str, object]] = Memory(3 * MOST_REMEMBERED)
_parts: Memory[bytes, object] = Memory(MOST_REMEMBERED)
"""By the bytes of a Value, which begin with its kind."""
_packed: Memory[int, bytes] = Memory(MOST_REMEMBERED)
_names: dict[bytes, str] = {}
_beginnings: dict[str, bytes] = {}
_MOST_NAMES: Final = 8192


def plain(struct: struct_pb2.Struct) -> dict[str, object]:
    """The object that a Struct holds. Of the Struct, who set which field is gone afterwards."""
    packed = _bytes_of(struct)
    if len(packed) > _SMALL:
        return _fields(packed)
    known = _objects.get(packed)
    if known is None:
        known = _fields(packed)
        _objects.put(packed, known, len(packed))
    return known


def seen(struct: struct_pb2.Struct) -> dict[str, object]:
    """The same for an object as an API server showed it: one with the same version has the same content."""
    metadata = struct.fields["metadata"].struct_value.fields if "metadata" in struct.fields else {}
    if "uid" not in metadata or "resourceVersion" not in metadata:
        return plain(struct)
    key = (metadata["uid"].string_value, metadata["resourceVersion"].string_value)
    known = _versions.get(key)
    if known is None:
        packed = _bytes_of(struct)
        known = _fields(packed)
        _versions.put(key, known, len(packed))
    return known


def _bytes_of(struct: struct_pb2.Struct) -> bytes:
    if "metadata" in struct.fields:
        metadata = struct.fields["metadata"].struct_value.fields
        # To look for a field that is not there would make it.
        if "managedFields" in metadata:
            del metadata["managedFields"]
    packed: bytes = struct.SerializeToString(deterministic=True)
    return packed


def fill(struct: struct_pb2.Struct, content: Mapping[str, object]) -> None:
    """Put an object into an empty Struct."""
    encoded = _encode(content)
    key = xxhash.xxh3_128_intdigest(encoded)
    packed = _packed.get(key)
    if packed is None:
        packed = _pack_fields(msgspec.json.decode(encoded, type=dict[str, object]))
        if len(encoded) <= _SMALL:
            _packed.put(key, packed, len(encoded))
    struct.MergeFromString(packed)


# The wire format. A Struct is a list of entries (field 1), each a name (field 1) and a Value (field 2). A ListValue is
# a list of Values (field 1). A Value is one field, whose number says its kind.

_NUMBER: Final = 0x11
_TEXT: Final = 0x1A
_TRUTH: Final = 0x20
_STRUCT: Final = 0x2A
_LIST: Final = 0x32
_MORE: Final = 0x80
_DOUBLE: Final = binary.Struct("<d")


def _length(packed: bytes, at: int) -> tuple[int, int]:
    """A length that takes more than one byte, and where what it measures begins."""
    length = shift = 0
    while packed[at] >= _MORE:
        length |= (packed[at] & 0x7F) << shift
        shift += 7
        at += 1
    return length | packed[at] << shift, at + 1


def _fields(packed: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    at, end = 0, len(packed)
    while at < end:
        size, at = packed[at + 1], at + 2
        if size >= _MORE:
            size, at = _length(packed, at - 1)
        stop = at + size
        size, at = packed[at + 1], at + 2
        if size >= _MORE:
            size, at = _length(packed, at - 1)
        name, at = packed[at : at + size], at + size + 2
        if name != _BOOKS:
            if packed[at - 1] >= _MORE:
                at = _length(packed, at - 1)[1]
            # Most fields are short texts: they are worth a way of their own.
            is_short_text = at < stop and packed[at] == _TEXT and packed[at + 1] < _MORE
            value = packed[at + 2 : stop].decode() if is_short_text else _value(packed[at:stop])
            found[_names.get(name) or _name(name)] = value
        at = stop
    return found


def _name(name: bytes) -> str:
    if len(_names) >= _MOST_NAMES:
        _names.clear()
    text = _names[name] = name.decode()
    return text


def _items(packed: bytes) -> list[object]:
    found: list[object] = []
    at, end = 0, len(packed)
    while at < end:
        size, at = packed[at + 1], at + 2
        if size >= _MORE:
            size, at = _length(packed, at - 1)
        found.append(_value(packed[at : at + size]))
        at += size
    return found


def _value(packed: bytes) -> object:
    kind = packed[0] if packed else 0
    if kind == _TEXT:
        return (packed[2:] if packed[1] < _MORE else packed[_length(packed, 1)[1] :]).decode()
    if kind in {_STRUCT, _LIST}:
        return _container(packed)
    if kind == _NUMBER:
        number: float = _DOUBLE.unpack_from(packed, 1)[0]
        return int(number) if number.is_integer() else number
    return bool(packed[1]) if kind == _TRUTH else None


def _container(packed: bytes) -> object:
    size = len(packed)
    is_kept = _WORTH_IT <= size <= _SMALL
    known = _parts.get(packed) if is_kept else None
    if known is None:
        content = packed[2:] if packed[1] < _MORE else packed[_length(packed, 1)[1] :]
        known = _fields(content) if packed[0] == _STRUCT else _items(content)
        if is_kept:
            _parts.put(packed, known, size)
    return known


def _pack_fields(content: Mapping[str, object]) -> bytes:
    packed: list[bytes] = []
    for name, value in content.items():
        inner = _pack(value)
        entry = b"".join((_beginnings.get(name) or _beginning(name), _size(len(inner)), inner))
        packed += (b"\x0a", _size(len(entry)), entry)
    return b"".join(packed)


def _beginning(name: str) -> bytes:
    """Of an entry: all but its Value."""
    if len(_beginnings) >= _MOST_NAMES:
        _beginnings.clear()
    encoded = name.encode()
    begun = _beginnings[name] = b"".join((b"\x0a", _size(len(encoded)), encoded, b"\x12"))
    return begun


def _pack(value: object) -> bytes:
    match value:
        case str():
            text = value.encode()
            return b"".join((b"\x1a", _size(len(text)), text))
        case bool():
            return b"\x20\x01" if value else b"\x20\x00"
        case int() | float():
            return b"\x11" + _DOUBLE.pack(value)
        case dict():
            fields = _pack_fields(value)
            return b"".join((b"\x2a", _size(len(fields)), fields))
        case list():
            items = b"".join([b"".join((b"\x0a", _size(len(item)), item)) for item in map(_pack, value)])
            return b"".join((b"\x32", _size(len(items)), items))
        case _:
            return b"\x08\x00"


def _size(size: int) -> bytes:
    return _SIZES[size] if size < _FEW else bytes(_long(size))


def _long(size: int) -> Iterator[int]:
    while size >= _MORE:
        yield size & 0x7F | _MORE
        size >>= 7
    yield size


_FEW: Final = 4096
_SIZES: Final = tuple(bytes(_long(size)) for size in range(_FEW))
