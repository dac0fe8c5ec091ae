"""Values against structural schemas, with the answers of the API server of Kubernetes and messages of our own.

`check` walks a value along its schema and reports problems and corrections for each field. It stops at a field with the
wrong type, and does not check inside a list or a map that has too many members. `structure` finds unknown fields, and
`rules` runs the rules.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

import msgspec
import re2

from modelplane.k8s.admission.formats import is_formatted
from modelplane.k8s.admission.objectmeta import check_embedded
from modelplane.k8s.admission.paths import ROOT, MapKey, Path
from modelplane.k8s.admission.problems import CauseType, Problem, collect, describe, listing
from modelplane.k8s.admission.schemas import (
    Schema,
    find_child,
    is_map,
    is_nullable,
    is_resource,
    items_of,
    properties_of,
)
from modelplane.k8s.admission.structure import nearest

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_EXACT_FLOATS: Final = 2**53
_LARGEST_FLOAT32: Final = 3.4028234663852886e38
_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip
_ARTICLES: Final = {"integer": "an integer", "array": "a list", "object": "an object"}
_UNLIMITED: Final = float("inf")

_canonical = msgspec.json.Encoder(order="deterministic")


def check(value: object, schema: Schema) -> tuple[Problem, ...]:
    """The problems of the value, in the order of the schema; empty when it is valid."""
    return collect(_check(value, schema, ROOT))


def same(left: object, right: object) -> bool:
    """Equality as JSON has it: true is not 1, and the order of keys does not count."""
    return left == right and canonical(left) == canonical(right)


def canonical(value: object) -> bytes:
    """Bytes that two values share only when they are the same."""
    try:
        return _canonical.encode(value)
    except (OverflowError, UnicodeEncodeError, TypeError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _check(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    wrong_type = _type_problem(value, schema, path)
    if wrong_type is not None:
        yield wrong_type
        return
    if "enum" in schema:
        yield from _check_enum(value, schema, path)
    if value is None:
        return
    yield from _CHECKS[type(value)](value, schema, path)
    yield from _check_combinations(value, schema, path)


def _type_problem(value: object, schema: Schema, path: Path) -> Problem | None:
    wanted = _wanted_types(schema)
    if not wanted:
        return None
    if value is None:
        right = f"give {_article(wanted[0])}, or leave the field out"
        return None if is_nullable(schema) else Problem(path, "is null", right, CauseType.TYPE)
    found = _JSON_TYPES[type(value)]
    if found in wanted or (found == "integer" and "number" in wanted):
        return None
    if isinstance(value, float) and value.is_integer() and "integer" in wanted:
        return None
    quote = describe(value) if tuple(wanted) == ("string",) and not isinstance(value, dict | list) else ""
    right = f"must be {listing(_article(name) for name in wanted)}"
    return Problem(path, f"is {_found(value, found)}", right, CauseType.TYPE, quote)


def _wanted_types(schema: Schema) -> Sequence[str]:
    if schema.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    wanted = schema.get("type")
    return (wanted,) if isinstance(wanted, str) else ()


def _found(value: object, name: str) -> str:
    return _article(name) if isinstance(value, dict | list) else f"the {name} {describe(value)}"


def _article(name: str) -> str:
    return _ARTICLES.get(name, f"a {name}")


def _check_enum(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    allowed = cast("Sequence[object]", schema["enum"])
    if value is not None and any(same(value, each) for each in allowed):
        return
    names = [each if isinstance(each, str) else describe(each) for each in allowed]
    guess = nearest(value, names) if isinstance(value, str) else ""
    right = f"use {listing(names)}" + (f" (did you mean {guess}?)" if guess and len(names) > 1 else "")
    yield Problem(path, f"{describe(value)} is not a supported value", right, CauseType.NOT_SUPPORTED)


def _check_string(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    text = cast("str", value)
    longest, shortest = limit_of(schema, "maxLength", _UNLIMITED), limit_of(schema, "minLength", 0)
    if len(text) > longest:
        yield Problem(path, f"has {len(text)} characters", f"at most {longest} are allowed", CauseType.TOO_LONG)
    elif len(text) < shortest:
        wrong = {0: "is empty", 1: "has 1 character"}.get(len(text), f"has {len(text)} characters")
        yield Problem(path, wrong, f"at least {shortest} {_are(shortest)} needed")
    elif "pattern" in schema and not _matches(cast("str", schema["pattern"]), text):
        yield Problem(path, f"{describe(text)} is not valid", f"must match {schema['pattern']}")
    if "format" in schema and not is_formatted(text, str(schema["format"])):
        yield Problem(path, f"{describe(text)} is not a valid {schema['format']}")


def _check_number(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    number = cast("int | float", value)
    low, high = range_of(schema)
    if not low <= number <= high:
        kind = schema.get("format", schema.get("type", "number"))
        yield Problem(path, f"{describe(number)} does not fit into {kind}", f"must be from {low} to {high}")
        return
    yield from _check_bounds(number, schema, path)
    factor = schema.get("multipleOf")
    if isinstance(factor, int | float) and not _is_multiple(number, factor):
        yield Problem(path, f"{describe(number)} is not allowed", f"must be a multiple of {factor}")


def _check_bounds(number: float, schema: Schema, path: Path) -> Iterator[Problem]:
    low, high = limit_of(schema, "minimum", -_UNLIMITED), limit_of(schema, "maximum", _UNLIMITED)
    if number < low or (number == low and schema.get("exclusiveMinimum") is True):
        words = "more than" if schema.get("exclusiveMinimum") is True else "at least"
        yield Problem(path, f"{describe(number)} is too small", f"must be {words} {low}")
    if number > high or (number == high and schema.get("exclusiveMaximum") is True):
        words = "less than" if schema.get("exclusiveMaximum") is True else "at most"
        yield Problem(path, f"{describe(number)} is too large", f"must be {words} {high}")


def range_of(schema: Schema) -> tuple[float, float]:
    """The range of the type of a number, independent of its bounds."""
    if schema.get("type") == "integer":
        return _INT32 if schema.get("format") == "int32" else _INT64
    if schema.get("type") == "number" and schema.get("format") == "float":
        return -_LARGEST_FLOAT32, _LARGEST_FLOAT32
    return -_UNLIMITED, _UNLIMITED


def _is_multiple(number: float, factor: float) -> bool:
    if isinstance(number, int):
        return int(factor) > 0 and number % int(factor) == 0
    quotient = number / factor
    return quotient.is_integer() and abs(quotient) < _EXACT_FLOATS


def _check_list(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    members = cast("list[object]", value)
    most, fewest = limit_of(schema, "maxItems", _UNLIMITED), limit_of(schema, "minItems", 0)
    if len(members) > most:
        yield Problem(path, f"has {len(members)} items", f"at most {most} {_are(most)} allowed", CauseType.TOO_MANY)
        return
    if len(members) < fewest:
        yield Problem(path, _count(members, "items"), f"at least {fewest} {_are(fewest)} needed")
    items = items_of(schema)
    if items is not None:
        for index, member in enumerate(members):
            yield from _check(member, items, (*path, index))
    yield from _check_unique(members, schema, path)


def _check_unique(members: Sequence[object], schema: Schema, path: Path) -> Iterator[Problem]:
    """Sets have each value once; maps have each key once, where an absent key field counts as a value of its own."""
    kind = schema.get("x-kubernetes-list-type")
    keys = cast("Sequence[str]", schema.get("x-kubernetes-list-map-keys", ())) if kind == "map" else ()
    if kind not in {"set", "map"} and schema.get("uniqueItems") is not True:
        return
    first: dict[bytes, int] = {}
    for index, member in enumerate(members):
        identity = _identity(member, keys)
        seen = first.setdefault(canonical(identity), index)
        if seen != index:
            wrong = f"{_shown_identity(identity, keys)} is the same as in item {seen}"
            yield Problem((*path, index), wrong, f"{' and '.join(keys) or 'each'} must be unique", CauseType.DUPLICATE)


def _identity(member: object, keys: Sequence[str]) -> object:
    if not keys:
        return member
    return {key: member[key] for key in keys if key in member} if isinstance(member, dict) else {}


def _shown_identity(identity: object, keys: Sequence[str]) -> str:
    if not isinstance(identity, dict) or not keys:
        return describe(identity)
    return listing((f"{key} {describe(identity.get(key))}" for key in keys), last="and")


def _check_object(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    fields = cast("dict[str, object]", value)
    most, fewest = limit_of(schema, "maxProperties", _UNLIMITED), limit_of(schema, "minProperties", 0)
    if len(fields) > most:
        yield Problem(path, f"has {len(fields)} entries", f"at most {most} {_are(most)} allowed", CauseType.TOO_MANY)
        return
    if len(fields) < fewest:
        yield Problem(path, _count(fields, "entries"), f"at least {fewest} {_are(fewest)} needed")
    for name in cast("Sequence[str]", schema.get("required", ())):
        if name not in fields:
            yield _required(schema, name, path)
    if is_resource(schema):
        yield from check_embedded(fields, path)
    yield from _check_fields(fields, schema, path)


def _check_fields(fields: Mapping[str, object], schema: Schema, path: Path) -> Iterator[Problem]:
    keyed = is_map(schema)
    closed = schema.get("additionalProperties") is False
    for name, item in fields.items():
        known, child = find_child(schema, name)
        if child is not None:
            yield from _check(item, child, (*path, MapKey(name) if keyed else name))
        elif closed and not known:
            yield Problem((*path, name), "is not allowed here", "leave it out", CauseType.FORBIDDEN)


def _required(schema: Schema, name: str, path: Path) -> Problem:
    child = properties_of(schema).get(name, {})
    kinds = listing([_article(each) for each in _wanted_types(child)] or ["a value"])
    meaning = str(child.get("description", "")).partition(". ")[0].rstrip(".")
    return Problem(
        (*path, name), "is required", f"give {kinds}" + (f": {meaning}" if meaning else ""), CauseType.REQUIRED
    )


def _check_combinations(value: object, schema: Schema, path: Path) -> Iterator[Problem]:
    for each in _alternatives(schema, "allOf"):
        yield from _check(value, each, path)
    for keyword, accepts in (("anyOf", _some), ("oneOf", _one)):
        alternatives = _alternatives(schema, keyword)
        matched = [each for each in alternatives if _is_valid(value, each)]
        if alternatives and not accepts(matched):
            yield _no_alternative(alternatives, matched, path, exactly=keyword == "oneOf")
    forbidden = schema.get("not")
    if isinstance(forbidden, Mapping) and _is_valid(value, forbidden):
        yield Problem(path, "has a shape that is not allowed", f"must not match {_shape(forbidden)}")


def _some(matched: Sequence[Schema]) -> bool:
    return len(matched) > 0


def _one(matched: Sequence[Schema]) -> bool:
    return len(matched) == 1


def _is_valid(value: object, schema: Schema) -> bool:
    return next(_check(value, schema, ROOT), None) is None


def _no_alternative(alternatives: Sequence[Schema], matched: Sequence[Schema], path: Path, *, exactly: bool) -> Problem:
    found = f"matches {listing(map(_shape, matched), last='and')} at once" if matched else "matches no alternative"
    words = "exactly one of" if exactly else "one of"
    return Problem(path, found, f"must match {words}: {listing(map(_shape, alternatives))}")


def _shape(schema: Schema) -> str:
    """A short description of an alternative: its required fields, or its keywords."""
    required = schema.get("required")
    return f"{' with '.join(map(str, required))}" if isinstance(required, list) else canonical(schema).decode()


def _alternatives(schema: Schema, keyword: str) -> Sequence[Schema]:
    return cast("Sequence[Schema]", schema.get(keyword, ()))


def limit_of(schema: Schema, keyword: str, otherwise: float) -> float:
    found = schema.get(keyword)
    return found if isinstance(found, int | float) else otherwise


def _count(members: Sequence[object] | Mapping[str, object], noun: str) -> str:
    return f"has {len(members)} {noun}" if members else "is empty"


def _are(number: float) -> str:
    return "is" if number == 1 else "are"


def _matches(pattern: str, text: str) -> bool:
    return matcher_of(pattern)(text)


def matcher_of(pattern: str) -> Callable[[str], bool]:
    """Whether a text contains a match of the pattern; an invalid pattern never matches."""
    search = _searcher(pattern)
    return lambda text: search is not None and search(text) is not None


def satisfies_combinations(value: object, schema: Schema) -> bool:
    """Whether the value obeys `allOf`, `anyOf`, `oneOf` and `not`."""
    return next(_check_combinations(value, schema, ROOT), None) is None


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], object] | None:
    """An unanchored search, as Kubernetes does it; nothing where the pattern itself is wrong."""
    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Callable[[str], object]", re2.compile(pattern, options).search)
    except re2.error:
        return None


_CHECKS: Final[Mapping[type, Callable[[object, Schema, Path], Iterator[Problem]]]] = {
    bool: lambda _value, _schema, _path: iter(()),
    int: _check_number,
    float: _check_number,
    str: _check_string,
    list: _check_list,
    dict: _check_object,
}
