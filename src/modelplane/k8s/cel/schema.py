"""Structural OpenAPI schemas as types of CEL, with the sizes that the cost estimate needs.

What an expression may see follows the schema: properties become fields, `additionalProperties` a map, arrays lists,
int-or-string is `dyn`. Parts without a type are not visible at all, and an object that preserves unknown fields shows
only those it declares. At the root of a resource `apiVersion`, `kind` and the names in `metadata` are always there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.escaping import RESERVED, escape
from modelplane.k8s.cel.sizes import Range
from modelplane.k8s.cel.types import CelType

Schema: TypeAlias = Mapping[str, object]

_REQUEST_BYTES = 3 * 1024 * 1024
_TEXT: Schema = {"type": "string"}
_META: Schema = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_EMPTY: Schema = {}

# The type, the smallest size in JSON and the largest length of each format of a string that is not just text.
_FORMATS: dict[str, tuple[CelType, int, int]] = {
    "duration": (t.DURATION, 3, 32),
    "date": (t.TIMESTAMP, 12, 12),
    "date-time": (t.TIMESTAMP, 21, 32),
}
_SIMPLE: dict[str, tuple[CelType, int]] = {"boolean": (t.BOOL, 4), "number": (t.DOUBLE, 1), "integer": (t.INT, 1)}


@dataclass(frozen=True, slots=True)
class SchemaShape:
    """A part of a schema as CEL sees it: its type, how large it can be, and how small its JSON."""

    type: CelType
    most: int
    least_json: int
    fields: "Mapping[str, SchemaShape]" = field(default_factory=dict)
    element: "SchemaShape | None" = None
    has_keys: bool = False


def shape_of(schema: Schema, name: str, *, root: bool = False) -> SchemaShape | None:
    """The shape of a schema, or None where expressions cannot see it. `name` makes its object types distinct."""
    if schema.get("x-kubernetes-int-or-string") is True:
        length = _length(schema)
        return SchemaShape(t.DYN, _REQUEST_BYTES - 2 if length is None else length * 4, 1)
    if root:
        schema = with_object_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _array_shape(schema, name)
    if kind == "object":
        return (
            _map_shape(schema, name)
            if nested(schema, "additionalProperties") is not None
            else _object_shape(schema, name)
        )
    if kind == "string":
        return _string_shape(schema)
    found = _SIMPLE.get(str(kind))
    return None if found is None else SchemaShape(found[0], 0, found[1])


def nested(schema: Schema, keyword: str) -> Schema | None:
    """The schema under a keyword, or None where there is none; a bare true or false is none."""
    inner = schema.get(keyword)
    return inner if isinstance(inner, Mapping) else None


def properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The declared properties."""
    for name, inner in (nested(schema, "properties") or _EMPTY).items():
        if isinstance(inner, Mapping):
            yield name, inner


def is_embedded(schema: Schema) -> bool:
    """Whether a whole resource sits here."""
    return schema.get("x-kubernetes-embedded-resource") is True


def with_object_meta(schema: Schema) -> Schema:
    """The schema of a resource with what every resource has."""
    declared = dict(properties(schema))
    meta = dict(properties(declared.get("metadata", _EMPTY)))
    if all(_is_text(declared.get(name)) for name in ("kind", "apiVersion")) and all(
        _is_text(meta.get(name)) for name in ("name", "generateName")
    ):
        return schema
    added = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}
    return {**schema, "properties": declared | added}


def _is_text(schema: Schema | None) -> bool:
    return schema is not None and schema.get("type") == "string"


def _number(schema: Schema, keyword: str) -> int | None:
    value = schema.get(keyword)
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else None


def _length(schema: Schema) -> int | None:
    return _number(schema, "maxLength")


def _array_shape(schema: Schema, name: str) -> SchemaShape | None:
    items = nested(schema, "items")
    element = None if items is None else shape_of(items, f"{name}.@idx", root=is_embedded(items))
    if element is None:
        return None
    most = _number(schema, "maxItems")
    if most is None:
        most = (_REQUEST_BYTES - 2) // (element.least_json + 1)
    return SchemaShape(t.list_of(element.type), most, 2, element=element)


def _map_shape(schema: Schema, name: str) -> SchemaShape | None:
    values = nested(schema, "additionalProperties") or _EMPTY
    element = shape_of(values, f"{name}.@elem", root=is_embedded(values))
    if element is None:
        return None
    most = _number(schema, "maxProperties")
    if most is None:
        most = (_REQUEST_BYTES - 2) // (element.least_json + 6)
    return SchemaShape(t.map_of(t.STRING, element.type), most, 2, element=element, has_keys=True)


def _object_shape(schema: Schema, name: str) -> SchemaShape:
    required = schema.get("required")
    wanted = frozenset(required) if isinstance(required, list | tuple) else frozenset()
    fields: dict[str, SchemaShape] = {}
    least = 2
    for property_name, inner in properties(schema):
        identifier = escape(property_name)
        found = shape_of(inner, f"{name}.{identifier or property_name}", root=is_embedded(inner))
        if found is None:
            continue
        if identifier is not None:
            fields[identifier] = found
        if property_name in wanted and inner.get("default") is None:
            least += len(property_name.encode()) + found.least_json + 4
    return SchemaShape(t.struct(name), 0, least, fields=fields)


def _string_shape(schema: Schema) -> SchemaShape:
    found = _FORMATS.get(str(schema.get("format")))
    if found is not None:
        return SchemaShape(found[0], found[2], found[1])
    length = _length(schema)
    if schema.get("format") == "byte":
        return SchemaShape(t.BYTES, _REQUEST_BYTES - 2 if length is None else length, 2)
    if length is not None:
        return SchemaShape(t.STRING, length * 4, 2)
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and choices:
        return SchemaShape(
            t.STRING, max([len(choice.encode()) for choice in choices if isinstance(choice, str)], default=0), 2
        )
    return SchemaShape(t.STRING, _REQUEST_BYTES - 2, 2)


def struct_fields(shape: SchemaShape) -> dict[str, dict[str, CelType]]:
    """The fields of every object type inside a shape."""
    found: dict[str, dict[str, CelType]] = {}
    pending = [shape]
    while pending:
        part = pending.pop()
        if part.type.kind is t.TypeKind.STRUCT:
            fields = {name: inner.type for name, inner in part.fields.items()}
            # A field whose name is a reserved word is also available by that word.
            fields |= {word: fields[f"__{word}__"] for word in RESERVED if f"__{word}__" in fields}
            found[part.type.name] = fields
        pending += part.fields.values()
        if part.element is not None:
            pending.append(part.element)
    return found


class SchemaBounds:
    """Sizes of what a path reaches; the variable that the path starts with is always the value itself."""

    __slots__ = ("root",)

    def __init__(self, root: SchemaShape) -> None:
        self.root = root

    def size(self, path: tuple[str, ...], _found: CelType) -> Range | None:
        """The size of the value at a path."""
        if not path:
            return None
        node: SchemaShape | None = self.root
        for name in path[1:]:
            if node is None:
                return None
            if name == "@keys":
                node = SchemaShape(t.STRING, 0, 2) if node.has_keys else None
            else:
                node = node.element if name in {"@items", "@values"} else node.fields.get(name)
        return None if node is None else (0, node.most)
