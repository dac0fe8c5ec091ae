"""The fast path of `prepare`: a valid object is pruned, defaulted and checked in one walk.

A schema is compiled once into a tree of functions, each of which returns the value as it would be stored. Anything
else than a valid object without unknown fields (an unknown field, a null, a number that is not quite an integer)
raises `_FallBack`, and `prepare` decides. This module never refuses an object: it saves time only.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, cast

from modelplane.k8s.admission import prepare as slow
from modelplane.k8s.admission.formats import is_formatted
from modelplane.k8s.admission.prepare import METADATA, PreparedObject
from modelplane.k8s.admission.schema import canonical, limit_of, matcher_of, range_of, satisfies_combinations
from modelplane.k8s.admission.schemas import (
    META_FIELDS,
    Schema,
    SchemaKey,
    is_resource,
    items_of,
    keeps_unknown,
    properties_of,
)
from modelplane.k8s.admission.structure import apply_defaults, copy_json

Step: TypeAlias = Callable[[object], object]

_COMBINATIONS: Final = ("allOf", "anyOf", "oneOf", "not")
_UNLIMITED: Final = float("inf")
# One entry per schema of an object, whole or in part.
_CACHED_SCHEMAS: Final = 256


class _FallBack(Exception):  # noqa: N818  a way out, not an error
    """`prepare` has to decide."""


def prepare(value: dict[str, object], schema: Schema) -> PreparedObject:
    """Prune, default and check an object, as `prepare.prepare` does."""
    found = prepare_valid(value, schema)
    return slow.prepare(value, schema) if found is None else PreparedObject(found)


def prepare_valid(value: dict[str, object], schema: Schema) -> dict[str, object] | None:
    """The value to store where the object is valid and has no unknown field; None where `prepare` has to decide."""
    try:
        return cast("dict[str, object]", _root_step(SchemaKey(schema))(value))
    except (_FallBack, RecursionError):
        return None


@lru_cache(maxsize=_CACHED_SCHEMAS)
def _root_step(identity: SchemaKey) -> Step:
    schema = identity.schema
    if (
        schema.get("type", "object") != "object"
        or "enum" in schema
        or is_resource(schema)
        or "additionalProperties" in schema
    ):
        return _fall_back
    known = properties_of(schema)
    steps = {name: _compile(known[name]) if name in known else copy_json for name in META_FIELDS}
    return _with_combinations(_object_step(schema, {**steps, METADATA: _metadata_step(known.get(METADATA))}), schema)


def _metadata_step(schema: Schema | None) -> Step:
    return lambda value: apply_defaults(value, schema)


def _compile(schema: Schema | None, *, keep: bool = False) -> Step:
    """`keep`: fields that the schema does not know stay."""
    if schema is None or not schema.get("type"):
        return _untyped_step(schema, keep=keep or keeps_unknown(schema))
    keep = keep or keeps_unknown(schema)
    match schema["type"]:
        case "object":
            made = _fall_back if is_resource(schema) else _object_step(schema, {}, keep=keep)
        case "array":
            made = _list_step(schema, keep=keep)
        case "string":
            made = _string_step(schema)
        case "integer":
            made = _number_step(schema, (int,))
        case "number":
            made = _number_step(schema, (int, float))
        case "boolean":
            made = _boolean_step
        case _:
            made = _fall_back
    return _with_combinations(_with_enum(made, schema), schema)


def _untyped_step(schema: Schema | None, *, keep: bool) -> Step:
    """Where any type will do, values are taken as they are only where they are kept, or can have nothing to prune."""
    if schema and (keys := schema.keys() - {"description", "x-kubernetes-preserve-unknown-fields"}):
        if keys <= {"x-kubernetes-int-or-string", "anyOf", "pattern", "minLength", "maxLength"} and not keep:
            return _with_combinations(_int_or_string_step(schema), schema)
        return _fall_back
    return copy_json if keep else _scalar_step


def _scalar_step(value: object) -> object:
    if isinstance(value, dict | list) or value is None:
        raise _FallBack
    return value


def _int_or_string_step(schema: Schema) -> Step:
    if schema.get("x-kubernetes-int-or-string") is not True:
        return _fall_back
    steps: Mapping[type, Step] = {int: _number_step(schema, (int,)), str: _string_step(schema)}
    return lambda value: steps.get(type(value), _fall_back)(value)


def _fall_back(_value: object) -> object:
    raise _FallBack


def _with_combinations(step: Step, schema: Schema) -> Step:
    if not any(keyword in schema for keyword in _COMBINATIONS):
        return step

    def combined(value: object) -> object:
        prepared = step(value)
        if not satisfies_combinations(prepared, schema):
            raise _FallBack
        return prepared

    return combined


def _with_enum(step: Step, schema: Schema) -> Step:
    if "enum" not in schema:
        return step
    allowed = frozenset(canonical(each) for each in cast("Sequence[object]", schema["enum"]))

    def enumerated(value: object) -> object:
        prepared = step(value)
        if canonical(prepared) not in allowed:
            raise _FallBack
        return prepared

    return enumerated


def _boolean_step(value: object) -> object:
    if type(value) is not bool:
        raise _FallBack
    return value


def _string_step(schema: Schema) -> Step:
    shortest, longest = limit_of(schema, "minLength", 0), limit_of(schema, "maxLength", _UNLIMITED)
    pattern, form = schema.get("pattern"), schema.get("format")
    matches = matcher_of(str(pattern)) if pattern is not None else None

    def step(value: object) -> object:
        if type(value) is not str or not shortest <= len(value) <= longest:
            raise _FallBack
        if matches is not None and not matches(value):
            raise _FallBack
        if form is not None and not is_formatted(value, str(form)):
            raise _FallBack
        return value

    return step


def _number_step(schema: Schema, types: tuple[type, ...]) -> Step:
    if schema.keys() & {"exclusiveMinimum", "exclusiveMaximum", "multipleOf"}:
        return _fall_back
    low, high = range_of(schema)
    low, high = max(low, limit_of(schema, "minimum", low)), min(high, limit_of(schema, "maximum", high))

    def step(value: object) -> object:
        if type(value) not in types or not low <= cast("float", value) <= high:
            raise _FallBack
        return value

    return step


def _list_step(schema: Schema, *, keep: bool) -> Step:
    fewest, most = limit_of(schema, "minItems", 0), limit_of(schema, "maxItems", _UNLIMITED)
    item_step, is_unique = _compile(items_of(schema), keep=keep), _uniqueness(schema)

    def step(value: object) -> object:
        if type(value) is not list or not fewest <= len(value) <= most:
            raise _FallBack
        made = [item_step(item) for item in value]
        if is_unique is not None and not is_unique(made):
            raise _FallBack
        return made

    return step


def _uniqueness(schema: Schema) -> Callable[[list[object]], bool] | None:
    """Whether the members of a set, or the keys of a keyed list, are all different; none for other lists."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if kind == "map" and isinstance(keys, list):
        return lambda members: _all_unique([_identity(each, keys) for each in members])
    if kind in {"set", "map"} or schema.get("uniqueItems") is True:
        return _all_unique
    return None


def _identity(member: object, keys: list[str]) -> object:
    return {key: member[key] for key in keys if key in member} if isinstance(member, dict) else {}


def _all_unique(members: list[object]) -> bool:
    return len(members) <= 1 or len({canonical(each) for each in members}) == len(members)


def _object_step(schema: Schema, given: Mapping[str, Step], *, keep: bool = False) -> Step:
    """`given` are steps for fields that every object has."""
    keep = keep or keeps_unknown(schema)
    known = {**{name: _compile(each) for name, each in properties_of(schema).items() if name not in given}, **given}
    additional = _additional_step(schema, keep=keep)
    fewest, most = limit_of(schema, "minProperties", 0), limit_of(schema, "maxProperties", _UNLIMITED)
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    defaults = _defaults(schema, known)

    def step(value: object) -> object:
        if type(value) is not dict:
            raise _FallBack
        made = {name: known.get(name, additional)(item) for name, item in value.items()}
        for name, default, fill in defaults:
            if name not in made:
                made[name] = fill(default)
        if not fewest <= len(made) <= most or not required <= made.keys():
            raise _FallBack
        return made

    return step


def _additional_step(schema: Schema, *, keep: bool) -> Step:
    """For fields that are no properties."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return _compile(additional)
    if additional is True:
        return _scalar_step
    return copy_json if keep and additional is None else _fall_back


def _defaults(schema: Schema, known: Mapping[str, Step]) -> tuple[tuple[str, object, Step], ...]:
    found = ((name, each.get("default"), known[name]) for name, each in properties_of(schema).items())
    return tuple((name, default, fill) for name, default, fill in found if default is not None)
