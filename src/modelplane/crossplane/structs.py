"""Conversion between protobuf's Struct and plain objects.

A Struct has floats only. A whole number becomes an int: every whole number of the Kubernetes API is declared as one,
and a field declared as a float reads an int as well.

To walk a Struct costs more than to compose, and most of what Crossplane sends is what it sent last time: of an object a
condition changed, of its metadata the resourceVersion. So objects are decoded from their bytes, and each part of them,
at any depth, is cached by its bytes: those that this process's protobuf writes, since Go orders the fields of a map
anew each time. Decoded objects are shared between calls and must not be changed.
"""

import struct as binary
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import xxhash
from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # it ships no types

from modelplane.crossplane.bounded_cache import BoundedCache

_LARGE: Final = 256 * 1024
"""Larger objects are decoded each time: a few of them would evict everything else."""
_WORTH_CACHING: Final = 48
"""Smaller parts are decoded as fast as they are looked up."""
_MANAGED_FIELDS: Final = b"managedFields"
"""Half of every object that an API server sends. Nothing here reads it."""
_MOST_NAMES: Final = 8192

_encode = msgspec.json.Encoder().encode

# The wire format. A Struct is a list of entries (field 1), each a name (field 1) and a Value (field 2). A ListValue is
# a list of Values (field 1). A Value is one field, whose number says its kind.

_NUMBER: Final = 0x11
_STRING: Final = 0x1A
_BOOL: Final = 0x20
_STRUCT: Final = 0x2A
_LIST: Final = 0x32
_MORE: Final = 0x80
_DOUBLE: Final = binary.Struct("<d")


class StructCodec:
    """Decodes and encodes Structs. `cache_bytes` of protobuf are cached each way, as plain objects several times that.

    Objects are cached by content, and those that an API server showed by their resourceVersion.
    """

    __slots__ = ("_encoded", "_entry_heads", "_names", "_objects", "_parts", "_versions")

    def __init__(self, cache_bytes: int) -> None:
        self._objects: BoundedCache[bytes, dict[str, object]] = BoundedCache(cache_bytes)
        self._versions: BoundedCache[tuple[str, str], dict[str, object]] = BoundedCache(3 * cache_bytes)
        self._parts: BoundedCache[bytes, object] = BoundedCache(cache_bytes)
        """By the bytes of a Value, which begin with its kind."""
        self._encoded: BoundedCache[int, bytes] = BoundedCache(cache_bytes)
        self._names: dict[bytes, str] = {}
        self._entry_heads: dict[str, bytes] = {}

    def decode(self, struct: struct_pb2.Struct) -> dict[str, object]:
        """The object in a Struct. Removes managedFields from the Struct."""
        packed = _serialized(struct)
        if len(packed) > _LARGE:
            return self._fields(packed)
        known = self._objects.get(packed)
        if known is None:
            known = self._fields(packed)
            self._objects.put(packed, known, len(packed))
        return known

    def decode_observed(self, struct: struct_pb2.Struct) -> dict[str, object]:
        """The same for an object that an API server showed: equal resourceVersions mean equal content."""
        metadata = struct.fields["metadata"].struct_value.fields if "metadata" in struct.fields else {}
        if "uid" not in metadata or "resourceVersion" not in metadata:
            return self.decode(struct)
        key = (metadata["uid"].string_value, metadata["resourceVersion"].string_value)
        known = self._versions.get(key)
        if known is None:
            packed = _serialized(struct)
            known = self._fields(packed)
            self._versions.put(key, known, len(packed))
        return known

    def encode_into(self, struct: struct_pb2.Struct, content: Mapping[str, object]) -> int:
        """Put an object into an empty Struct, and return its size in bytes."""
        encoded = _encode(content)
        key = xxhash.xxh3_128_intdigest(encoded)
        packed = self._encoded.get(key)
        if packed is None:
            packed = self._pack_fields(msgspec.json.decode(encoded, type=dict[str, object]))
            if len(encoded) <= _LARGE:
                self._encoded.put(key, packed, len(encoded))
        struct.MergeFromString(packed)
        return len(packed)

    def _fields(self, packed: bytes) -> dict[str, object]:
        found: dict[str, object] = {}
        names = self._names
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
            if name != _MANAGED_FIELDS:
                if packed[at - 1] >= _MORE:
                    at = _length(packed, at - 1)[1]
                # Most fields are short strings: they are decoded in place.
                is_short_string = at < stop and packed[at] == _STRING and packed[at + 1] < _MORE
                value = packed[at + 2 : stop].decode() if is_short_string else self._value(packed[at:stop])
                found[names.get(name) or self._name(name)] = value
            at = stop
        return found

    def _name(self, name: bytes) -> str:
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        text = self._names[name] = name.decode()
        return text

    def _items(self, packed: bytes) -> list[object]:
        found: list[object] = []
        at, end = 0, len(packed)
        while at < end:
            size, at = packed[at + 1], at + 2
            if size >= _MORE:
                size, at = _length(packed, at - 1)
            found.append(self._value(packed[at : at + size]))
            at += size
        return found

    def _value(self, packed: bytes) -> object:
        kind = packed[0] if packed else 0
        if kind == _STRING:
            return (packed[2:] if packed[1] < _MORE else packed[_length(packed, 1)[1] :]).decode()
        if kind in {_STRUCT, _LIST}:
            return self._container(packed)
        if kind == _NUMBER:
            number: float = _DOUBLE.unpack_from(packed, 1)[0]
            return int(number) if number.is_integer() else number
        return bool(packed[1]) if kind == _BOOL else None

    def _container(self, packed: bytes) -> object:
        size = len(packed)
        is_cached = _WORTH_CACHING <= size <= _LARGE
        known = self._parts.get(packed) if is_cached else None
        if known is None:
            content = packed[2:] if packed[1] < _MORE else packed[_length(packed, 1)[1] :]
            known = self._fields(content) if packed[0] == _STRUCT else self._items(content)
            if is_cached:
                self._parts.put(packed, known, size)
        return known

    def _pack_fields(self, content: Mapping[str, object]) -> bytes:
        packed: list[bytes] = []
        heads = self._entry_heads
        for name, value in content.items():
            inner = self._pack(value)
            entry = b"".join((heads.get(name) or self._entry_head(name), _size(len(inner)), inner))
            packed += (b"\x0a", _size(len(entry)), entry)
        return b"".join(packed)

    def _entry_head(self, name: str) -> bytes:
        """All of an entry but its Value."""
        if len(self._entry_heads) >= _MOST_NAMES:
            self._entry_heads.clear()
        encoded = name.encode()
        head = self._entry_heads[name] = b"".join((b"\x0a", _size(len(encoded)), encoded, b"\x12"))
        return head

    def _pack(self, value: object) -> bytes:
        match value:
            case str():
                text = value.encode()
                return b"".join((b"\x1a", _size(len(text)), text))
            case bool():
                return b"\x20\x01" if value else b"\x20\x00"
            case int() | float():
                return b"\x11" + _DOUBLE.pack(value)
            case dict():
                fields = self._pack_fields(value)
                return b"".join((b"\x2a", _size(len(fields)), fields))
            case list():
                items = b"".join([b"".join((b"\x0a", _size(len(item)), item)) for item in map(self._pack, value)])
                return b"".join((b"\x32", _size(len(items)), items))
            case _:
                return b"\x08\x00"


def _serialized(struct: struct_pb2.Struct) -> bytes:
    if "metadata" in struct.fields:
        metadata = struct.fields["metadata"].struct_value.fields
        # Reading a field that is absent would create it.
        if "managedFields" in metadata:
            del metadata["managedFields"]
    packed: bytes = struct.SerializeToString(deterministic=True)
    return packed


def _length(packed: bytes, at: int) -> tuple[int, int]:
    """A length of more than one byte, and where what it measures begins."""
    length = shift = 0
    while packed[at] >= _MORE:
        length |= (packed[at] & 0x7F) << shift
        shift += 7
        at += 1
    return length | packed[at] << shift, at + 1


def _size(size: int) -> bytes:
    return _SIZES[size] if size < _FEW else bytes(_varint(size))


def _varint(size: int) -> Iterator[int]:
    while size >= _MORE:
        yield size & 0x7F | _MORE
        size >>= 7
    yield size


_FEW: Final = 4096
_SIZES: Final = tuple(bytes(_varint(size)) for size in range(_FEW))
