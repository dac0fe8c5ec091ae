"""Protocol buffers on the wire, as far as the messages of Envoy need them."""

from typing import Final

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_MOST_SHIFT: Final = 63
_ONE_BYTE: Final = 0x80
_TWO_BYTES: Final = 0x4000
_SMALL: Final = [bytes((value,)) for value in range(_ONE_BYTE)]

Field = tuple[int, int | bytes]
"""A field's number, and its value: a number, or the bytes of a string or message."""


class WireError(ValueError):
    """The bytes are not a message."""


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number and where the next thing begins."""
    value = shift = 0
    while True:
        if place >= len(data) or shift > _MOST_SHIFT:
            raise WireError("a number does not end")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, place
        shift += 7


def first_field(data: bytes, place: int) -> tuple[Field, int]:
    """The field at a place and where the next one begins. Fixed-size values are passed as bytes, groups are refused."""
    key = data[place]
    if key < _ONE_BYTE:
        place += 1
    else:
        key, place = varint(data, place)
    kind = key & 7
    if kind == _BYTES:
        length, place = varint(data, place)
    elif kind == _VARINT:
        value, place = varint(data, place)
        return (key >> 3, value), place
    elif kind in {_FIXED64, _FIXED32}:
        length = 8 if kind == _FIXED64 else 4
    else:
        raise WireError(f"a field of wire type {kind}")
    end = place + length
    if end > len(data):
        raise WireError("a field is longer than its message")
    return (key >> 3, data[place:end]), end


def fields(data: bytes) -> list[Field]:
    """The fields of a message in order."""
    found: list[Field] = []
    place, size = 0, len(data)
    while place < size:
        # Nearly all are short keys of bytes, whose length has one byte or two.
        key = data[place]
        if key & 0x87 == _BYTES and place + 2 < size:
            length, begin = data[place + 1], place + 2
            if length >= _ONE_BYTE:
                length, begin = varint(data, place + 1)
            place = begin + length
            if place > size:
                raise WireError("a field is longer than its message")
            found.append((key >> 3, data[begin:place]))
        else:
            field, place = first_field(data, place)
            found.append(field)
    return found


def number(value: int) -> bytes:
    """A varint."""
    if value < _ONE_BYTE:
        return _SMALL[value]
    if value < _TWO_BYTES:
        return bytes((value & 0x7F | 0x80, value >> 7))
    return bytes((value & 0x7F | 0x80,)) + number(value >> 7)


def nested(field: int, value: bytes) -> bytes:
    """A field of bytes, a string or a message."""
    return number(field << 3 | _BYTES) + number(len(value)) + value


def whole(field: int, value: int) -> bytes:
    """A field of a number, an enumeration or a truth value; absent where it is zero, as proto3 has it."""
    return number(field << 3) + number(value) if value else b""
