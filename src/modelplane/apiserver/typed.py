"""Values walked along their structural schema, as server-side apply needs it.

Ownership follows the schema: fields of objects and keys of maps are owned separately, unless the map is atomic; the
items of a list are owned separately if it is keyed (`x-kubernetes-list-type: map`) or a set, and other lists are owned
as a whole. Without a schema, objects are granular and lists are atomic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from modelplane.apiserver.field_sets import EMPTY, Field, FieldSet
from modelplane.k8s.admission.schemas import Schema, find_child, items_of, keeps_unknown, properties_of


class TypedError(ValueError):
    """The value does not match its schema."""


class _Shape(Enum):
    LEAF = auto()
    MAP = auto()
    LIST = auto()


_canonical = msgspec.json.Encoder(order="sorted")


def _shape(value: object, schema: Schema | None) -> _Shape:
    if isinstance(value, dict):
        atomic = schema is not None and schema.get("x-kubernetes-map-type") == "atomic"
        return _Shape.LEAF if atomic else _Shape.MAP
    if isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type") if schema is not None else None
        return _Shape.LIST if kind in {"map", "set"} else _Shape.LEAF
    return _Shape.LEAF


def _is_declared(schema: Schema | None, name: str) -> bool:
    return schema is not None and name in properties_of(schema)


def _child(schema: Schema | None, name: str) -> Schema | None:
    return find_child(schema, name)[1]


def _keyed(items: Sequence[object], schema: Schema | None) -> dict[str, object]:
    """The items by their step. TypedError where one lacks a key or occurs twice."""
    found: dict[str, object] = {}
    for item in items:
        step = _item_step(item, schema)
        if step in found:
            raise TypedError(f"duplicate entries for key {step[2:]}")
        found[step] = item
    return found


def _item_step(item: object, schema: Schema | None) -> str:
    if schema is None or schema.get("x-kubernetes-list-type") == "set":
        return f"v:{_canonical.encode(item).decode()}"
    if not isinstance(item, dict):
        raise TypedError("an item of a keyed list is no object")
    keys = schema.get("x-kubernetes-list-map-keys")
    values: dict[str, object] = {}
    for key in keys if isinstance(keys, list) else ():
        default = (_child(items_of(schema), key) or {}).get("default")
        if key not in item and default is None:
            raise TypedError(f'associative list with keys has an element that omits key field "{key}"')
        values[key] = item.get(key, default)
    return f"k:{_canonical.encode(values).decode()}"


def owned(value: object, schema: Schema | None) -> FieldSet:
    """The fields that this value sets."""
    return frozenset(_owned(value, schema, ()))


def _owned(value: object, schema: Schema | None, at: Field) -> Iterator[Field]:
    match _shape(value, schema):
        case _Shape.MAP:
            assert isinstance(value, dict)  # noqa: S101  checked by its shape
            for name, item in value.items():
                place = (*at, f"f:{name}")
                if item == {} or item is None or not _is_declared(schema, name):
                    yield place
                yield from _owned(item, _child(schema, name), place)
        case _Shape.LIST:
            assert isinstance(value, list)  # noqa: S101  checked by its shape
            for step, item in _keyed(value, schema).items():
                yield (*at, step)
                yield from _owned(item, items_of(schema), (*at, step))
        case _Shape.LEAF:
            yield at


@dataclass(slots=True)
class _Differences:
    added: set[Field] = field(default_factory=set)
    removed: set[Field] = field(default_factory=set)
    modified: set[Field] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between an object and its successor."""

    added: FieldSet = EMPTY
    removed: FieldSet = EMPTY
    modified: FieldSet = EMPTY

    @property
    def is_same(self) -> bool:
        return not (self.added or self.removed or self.modified)


def compare(old: object, new: object, schema: Schema) -> Comparison:
    found = _Differences()
    _compare(old, new, schema, (), found)
    return Comparison(frozenset(found.added), frozenset(found.removed), frozenset(found.modified))


_ABSENT = object()
_ROOMY = 2
"""Down to this depth parts are large, and compared for equality first."""


def _compare(old: object, new: object, schema: Schema | None, at: Field, found: _Differences) -> None:
    if old is new or (len(at) <= _ROOMY and _is_same(old, new)):
        return
    present = new if old is _ABSENT else old
    shape = _shape(present, schema)
    if old is not _ABSENT and new is not _ABSENT and shape is not _shape(new, schema):
        shape = _Shape.LEAF
    if shape is _Shape.LEAF or (not (old if old is not _ABSENT else ()) and not (new if new is not _ABSENT else ())):
        _compare_leaf(old, new, at, found)
        return
    if shape is _Shape.MAP:
        one, other = _fields(old), _fields(new)
        for name in (*one, *(name for name in other if name not in one)):
            pair = one.get(name, _ABSENT), other.get(name, _ABSENT)
            _compare(*pair, _child(schema, name), (*at, f"f:{name}"), found)
    else:
        one, other = _members(old, schema), _members(new, schema)
        for step in (*one, *(step for step in other if step not in one)):
            _compare(one.get(step, _ABSENT), other.get(step, _ABSENT), items_of(schema), (*at, step), found)
    if old is _ABSENT:
        found.added.add(at)
    elif new is _ABSENT:
        found.removed.add(at)


def _is_same(old: object, new: object) -> bool:
    """Python compares 1, 1.0 and True as equal; their encodings differ."""
    return old == new and _canonical.encode(old) == _canonical.encode(new)


def _compare_leaf(old: object, new: object, at: Field, found: _Differences) -> None:
    if old is _ABSENT:
        found.added.add(at)
    elif new is _ABSENT:
        found.removed.add(at)
    elif old != new or type(old) is not type(new):
        found.modified.add(at)


def _fields(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _members(value: object, schema: Schema | None) -> Mapping[str, object]:
    return _keyed(value, schema) if isinstance(value, list) else {}


def merge(live: object, stated: object, schema: Schema | None) -> object:
    """The live value with the stated one laid over it."""
    shape = _shape(stated, schema)
    if shape is not _shape(live, schema) or shape is _Shape.LEAF:
        return stated
    if shape is _Shape.MAP:
        one, other = _fields(live), _fields(stated)
        return {
            **one,
            **{
                name: merge(one[name], item, _child(schema, name)) if name in one else item
                for name, item in other.items()
            },
        }
    return _merge_lists(_members(live, schema), _members(stated, schema), items_of(schema))


def _merge_lists(live: Mapping[str, object], stated: Mapping[str, object], schema: Schema | None) -> list[object]:
    """Stated items in their order; a live item that is not stated stays behind the one it followed."""
    merged: list[object] = []
    waiting = list(live)
    for step, item in stated.items():
        while waiting and waiting[0] not in stated:
            merged.append(live[waiting.pop(0)])
        if step in live:
            waiting.remove(step)
        merged.append(merge(live[step], item, schema) if step in live else item)
    return [*merged, *(live[step] for step in waiting)]


def remove(value: object, fields: FieldSet, schema: Schema | None) -> object:
    """The value without these fields and their children."""
    return _remove(value, fields, schema, ()) if fields else value


def _remove(value: object, fields: FieldSet, schema: Schema | None, at: Field) -> object:
    match _shape(value, schema):
        case _Shape.MAP:
            return {
                name: _remove(item, fields, _child(schema, name), (*at, f"f:{name}"))
                for name, item in _fields(value).items()
                if (*at, f"f:{name}") not in fields
            }
        case _Shape.LIST:
            return [
                _remove(item, fields, items_of(schema), (*at, step))
                for step, item in _members(value, schema).items()
                if (*at, step) not in fields
            ]
        case _:
            return value


def with_parents(fields: FieldSet, schema: Schema) -> FieldSet:
    """The fields and, above each, the declared ones that hold it."""
    found = set(fields)
    for each in fields:
        node: Schema | None = schema
        for depth, step in enumerate(each[:-1]):
            if step.startswith("f:"):
                if _is_declared(node, step[2:]):
                    found.add(each[: depth + 1])
                node = _child(node, step[2:])
            else:
                node = items_of(node)
    return frozenset(found)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_NAMES: Mapping[str, str] = {"object": "map", "array": "list", "integer": "numeric", "number": "numeric"}


def check_declared(value: object, schema: Schema | None, at: str = "") -> Iterator[str]:
    """The fields of an applied configuration that the schema does not declare."""
    if schema is None or value is None or schema.get("x-kubernetes-int-or-string"):
        return
    kind = str(schema.get("type", ""))
    if not isinstance(value, _TYPES.get(kind, (object,))) or (
        isinstance(value, bool) and kind in {"integer", "number"}
    ):
        yield f"{at}: expected {_NAMES.get(kind, kind)}, got {_canonical.encode(value).decode()}"
    elif isinstance(value, dict):
        for name, item in value.items():
            known, child = find_child(schema, name)
            if known:
                yield from check_declared(item, child, f"{at}.{name}")
            elif not keeps_unknown(schema) and schema.get("properties"):
                yield f"{at}.{name}: field not declared in schema"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_declared(item, items_of(schema), f"{at}[{index}]")
