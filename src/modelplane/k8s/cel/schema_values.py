"""Decoded JSON as values of CEL, read through its schema.

Objects are read on demand and cache what they read, so a rule pays for the fields it reads. A null property is an
absent one. Lists follow `x-kubernetes-list-type`: sets and maps compare without order, and adding merges.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.equality import value_equal
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.escaping import escape, unescape
from modelplane.k8s.cel.library.timestamps import parse_duration, parse_timestamp
from modelplane.k8s.cel.schema import Schema, is_embedded, nested, properties, with_object_meta
from modelplane.k8s.cel.values import (
    MAX_INT,
    MIN_INT,
    KeyedMap,
    as_string_map,
    find,
    is_list,
    is_map,
    list_size,
    no_overload,
)

_ZONED = re.compile(r"(?:Z|[+-][0-9]{2}:[0-9]{2})$", re.ASCII)


def to_value(data: object, schema: Schema) -> object:
    """The value of decoded JSON under its schema, or EvaluationError where the two do not fit."""
    if data is None:
        if schema.get("nullable") is True:
            return None
        raise EvaluationError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string") is True:
        return _int_or_string(data)
    reader = _READERS.get(str(schema.get("type")))
    if reader is not None:
        return reader(data, schema)
    if schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return Preserved(data)
    raise EvaluationError("invalid type: the schema says nothing about this value")


def _mismatch(wanted: str, data: object) -> EvaluationError:
    return EvaluationError(f"invalid data, expected {wanted}, got {type(data).__name__}")


def _int_or_string(data: object) -> object:
    if isinstance(data, str) or _is_int(data):
        return data
    raise _mismatch("an integer or a string", data)


def _is_int(data: object) -> bool:
    return isinstance(data, int) and not isinstance(data, bool) and MIN_INT <= data <= MAX_INT


def _read_boolean(data: object, _schema: Schema) -> object:
    if isinstance(data, bool):
        return data
    raise _mismatch("a boolean", data)


def _read_integer(data: object, _schema: Schema) -> object:
    if _is_int(data):
        return data
    raise _mismatch("an integer", data)


def _read_number(data: object, _schema: Schema) -> object:
    if isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    raise _mismatch("a number", data)


def _read_string(data: object, schema: Schema) -> object:
    if not isinstance(data, str):
        raise _mismatch("a string", data)
    parser = _STRING_FORMATS.get(str(schema.get("format")))
    return data if parser is None else parser(data)


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise EvaluationError(f"{text[:64]!r} is not base64") from None


def _read_date(text: str) -> object:
    return parse_timestamp(f"{text}T00:00:00Z")


def _read_date_time(text: str) -> object:
    if not text:
        return parse_timestamp("1970-01-01T00:00:00Z")
    # A moment without a zone is in UTC.
    zoned = text if _ZONED.search(text) else f"{text}Z"
    return parse_timestamp(zoned)


_STRING_FORMATS: dict[str, Callable[[str], object]] = {
    "byte": _read_bytes,
    "date": _read_date,
    "date-time": _read_date_time,
    "duration": parse_duration,
}


class Preserved:
    """Data that no schema describes; it can only be compared."""

    __slots__ = ("data",)
    cel_type = t.opaque("unknown")

    def __init__(self, data: object) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preserved) and self.data == other.data

    def __hash__(self) -> int:
        return id(self)


def _read_object(data: object, schema: Schema) -> object:
    if not isinstance(data, Mapping):
        raise _mismatch("an object", data)
    return SchemaMap(data, with_object_meta(schema) if is_embedded(schema) else schema)


class SchemaMap(KeyedMap):
    """An object or map. Fields of an object have their CEL identifiers, keys of a map are unchanged."""

    __slots__ = ("_declared", "_is_object", "_read", "_values", "data")

    def __init__(self, data: Mapping[str, object], schema: Schema) -> None:
        super().__init__([])
        self.data = data
        self._is_object = nested(schema, "properties") is not None
        self._declared = dict(properties(schema))
        self._values = None if self._is_object else nested(schema, "additionalProperties")
        self._read: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[object]:
        return iter([key for key, _ in self.items()])

    def items(self) -> Iterator[tuple[object, object]]:
        """The pairs that the schema declares."""
        for name in self.data:
            if self._schema_of(name) is not None:
                key = (escape(name) or name) if self._is_object else name
                present, value = self.find(key)
                if present:
                    yield key, value

    def _schema_of(self, name: str) -> Schema | None:
        return self._declared.get(name) if self._values is None else self._values

    def find(self, key: object) -> tuple[bool, object]:
        """Whether a field or key is there, and its value."""
        if not isinstance(key, str):
            raise no_overload("find", key)
        if key in self._read:
            return True, self._read[key]
        name = unescape(key) if self._is_object else key
        if name is None or name not in self.data:
            return False, None
        data, schema = self.data[name], self._schema_of(name)
        if schema is None or (self._is_object and data is None):
            return False, None
        value = self._read[key] = to_value(data, schema)
        return True, value

    def cel_native(self) -> object:
        """The plain data that is left once the value has been through an optional."""
        return as_string_map(self.data)

    def cel_equal(self, other: object) -> bool:
        """Equality with another map; what no schema describes is compared as plain data."""
        if not is_map(other):
            raise no_overload("_==_", self, other)
        if len(self) != len(other):
            return False
        return all(self._equal_entry(name, other) for name in self.data)

    def _equal_entry(self, name: str, other: object) -> bool:
        if self._schema_of(name) is None:
            theirs = other.data if isinstance(other, SchemaMap) else {}
            return name not in theirs or self.data[name] == theirs[name]
        key = (escape(name) or name) if self._is_object else name
        (present, value), (there, theirs_value) = self.find(key), find(other, key)
        return present is there and (not present or value_equal(value, theirs_value))


def _read_array(data: object, schema: Schema) -> object:
    items = nested(schema, "items")
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise _mismatch("an array", data)
    if items is None:
        raise EvaluationError("invalid array type: the schema has no items")
    elements = [to_value(element, items) for element in data]
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return SetList(elements)
    if kind == "map":
        keys = schema.get("x-kubernetes-list-map-keys")
        return MapList(elements, [str(key) for key in keys] if isinstance(keys, list | tuple) else [])
    return SchemaList(elements)


class SchemaList(list[object]):
    """An atomic list of a custom resource: unlike CEL's own, comparing its elements may fail."""

    __slots__ = ()

    def cel_equal(self, other: object) -> bool:
        """Equality, element by element."""
        if not is_list(other):
            raise no_overload("_==_", self, other)
        if len(self) != list_size(other):
            return False
        return all(value_equal(one, another) for one, another in zip(self, other, strict=True))

    def cel_contains(self, item: object) -> bool:
        """Membership; an error counts where no element is equal."""
        failure: EvaluationError | None = None
        for element in self:
            try:
                if value_equal(element, item):
                    return True
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return False

    def cel_add(self, other: object) -> object:
        """The elements of both."""
        return SchemaList([*self, *_elements(self, other)])


def _elements(left: object, other: object) -> list[object]:
    if not is_list(other):
        raise no_overload("_+_", left, other)
    return list(other)


class SetList(SchemaList):
    """A list whose order does not matter and whose elements are distinct scalars."""

    __slots__ = ()

    def cel_equal(self, other: object) -> bool:
        """Equality of sets."""
        if not is_list(other):
            raise no_overload("_==_", self, other)
        return len(self) == list_size(other) and all(_scalar(item) in self._keys() for item in other)

    def cel_add(self, other: object) -> object:
        """The union, in order of appearance."""
        keys, merged = self._keys(), list(self)
        for item in _elements(self, other):
            if _scalar(item) not in keys:
                keys.add(_scalar(item))
                merged.append(item)
        return SetList(merged)

    def _keys(self) -> set[object]:
        return {_scalar(item) for item in self}


def _scalar(item: object) -> object:
    return type(item), item


class MapList(SchemaList):
    """A list of objects known by their keys; order does not matter."""

    __slots__ = ("_key_names",)

    def __init__(self, elements: list[object], key_names: list[str]) -> None:
        super().__init__(elements)
        self._key_names = key_names

    def _key(self, item: object) -> object:
        data = item.data if isinstance(item, SchemaMap) else item if isinstance(item, dict) else {}
        return tuple([_scalar(data.get(escape(name) or name)) for name in self._key_names])

    def cel_equal(self, other: object) -> bool:
        """Equality, each element with the one of the same keys."""
        if not is_list(other):
            raise no_overload("_==_", self, other)
        if len(self) != list_size(other):
            return False
        mine = {self._key(item): item for item in self}
        return all(self._key(item) in mine and value_equal(mine[self._key(item)], item) for item in other)

    def cel_add(self, other: object) -> object:
        """The merge: elements of the other list replace those with the same keys."""
        merged = list(self)
        places = {self._key(item): place for place, item in enumerate(merged)}
        for item in _elements(self, other):
            place = places.get(self._key(item))
            if place is None:
                merged.append(item)
            else:
                merged[place] = item
        return MapList(merged, self._key_names)


_READERS: dict[str, Callable[[object, Schema], object]] = {
    "object": _read_object,
    "array": _read_array,
    "string": _read_string,
    "number": _read_number,
    "integer": _read_integer,
    "boolean": _read_boolean,
}
