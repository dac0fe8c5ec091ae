"""The way between protobuf's Struct and plain objects, the one place where numbers are put right.

A Struct has floats only. What is whole becomes an integer again: every field of the Kubernetes API that holds a whole
number is declared as one, and a field declared as a float reads an integer just as well.

Walking a Struct costs more than a whole composition, and most of what Crossplane sends did not change since the last
call, so both directions remember by content. What comes out is shared between calls: it is to be read, not changed.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Generic, TypeVar

import msgspec
import xxhash
from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # it ships no types

MOST_REMEMBERED = 32 * 1024 * 1024
"""Bytes of protobuf whose meaning is remembered, in each direction. As plain objects they take several times that."""
_SMALL = 256 * 1024
"""Larger objects are walked each time: a few of them would push out everything else."""

_WORTH_IT = 512
"""Smaller parts are walked as fast as they are looked up."""
_BOOKS = "managedFields"
"""Who set which field: half of every object that a server sends, and nothing here reads it."""

T = TypeVar("T")
_encode = msgspec.json.Encoder(order="deterministic").encode


class _Memory(Generic[T]):
    """The latest of what was converted, by digest of its content. Threads of the server share it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, T]] = {}
        self._held = 0
        self._lock = Lock()

    def get(self, key: int) -> T | None:
        found = self._known.get(key)
        return None if found is None else found[1]

    def put(self, key: int, value: T, size: int) -> None:
        with self._lock:
            if key in self._known:
                return
            self._known[key] = (size, value)
            self._held += size
            while self._held > MOST_REMEMBERED:
                oldest = next(iter(self._known))
                self._held -= self._known.pop(oldest)[0]


_plain: _Memory[dict[str, object]] = _Memory()
_packed: _Memory[bytes] = _Memory()


def plain(struct: struct_pb2.Struct) -> dict[str, object]:
    """The object that a Struct holds."""
    packed = struct.SerializeToString()
    if len(packed) > _SMALL:
        return _object(struct)
    key = xxhash.xxh3_128_intdigest(packed)
    known = _plain.get(key)
    if known is None:
        known = {name: _part(value) for name, value in struct.fields.items()}
        _plain.put(key, known, len(packed))
    return known


def _part(value: struct_pb2.Value) -> object:
    """Mostly one part of an object changed: its status. The others are remembered by themselves."""
    if value.WhichOneof("kind") != "struct_value":
        return _value(value)
    packed = value.SerializeToString()
    if not _WORTH_IT <= len(packed) <= _SMALL:
        return _object(value.struct_value)
    key = xxhash.xxh3_128_intdigest(packed)
    known = _plain.get(key)
    if known is None:
        known = _object(value.struct_value)
        _plain.put(key, known, len(packed))
    return known


def fill(struct: struct_pb2.Struct, content: Mapping[str, object]) -> None:
    """Put an object into an empty Struct."""
    encoded = _encode(content)
    if len(encoded) > _SMALL:
        struct.update(msgspec.json.decode(encoded))
        return
    key = xxhash.xxh3_128_intdigest(encoded)
    packed = _packed.get(key)
    if packed is None:
        made = struct_pb2.Struct()
        made.update(msgspec.json.decode(encoded))
        packed = made.SerializeToString()
        _packed.put(key, packed, len(packed))
    struct.MergeFromString(packed)


def _object(struct: struct_pb2.Struct) -> dict[str, object]:
    return {name: _value(value) for name, value in struct.fields.items() if name != _BOOKS}


def _value(value: struct_pb2.Value) -> object:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _object(value.struct_value)
        case "list_value":
            return [_value(item) for item in value.list_value.values]
        case _:
            return None
