"""Defaults and unknown fields, as the API server of Kubernetes treats them for custom resources.

A default fills a field that is absent, or null where null is not allowed; an object that is absent is made only by a
default of its own, so nested defaults do not create their parents. A null that is not allowed and has no default is
dropped. Fields that the schema does not know are dropped or reported, unless the schema keeps
them; inside a kept object the known fields are still held to their schema. No function here changes its input, and what
they return shares nothing with it.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from modelplane.k8s.admission.paths import ROOT, MapKey, Path
from modelplane.k8s.admission.problems import CauseType, Problem, collect, listing
from modelplane.k8s.admission.schemas import (
    META_FIELDS,
    Schema,
    find_child,
    is_map,
    is_nullable,
    is_resource,
    items_of,
    keeps_unknown,
    properties_of,
)

# The nearest name is found by comparing letters, so only for field names of a reasonable length.
_LONGEST_GUESSED: Final = 64
_SHORTEST_STEM: Final = 4


def apply_defaults(value: object, schema: Schema | None) -> object:
    """The value with defaults filled in, and with nulls that are not allowed dropped or replaced."""
    if isinstance(value, dict):
        return _default_object(value, schema)
    if isinstance(value, list):
        items = items_of(schema)
        return [apply_defaults(_replace_null(item, items), items) for item in value]
    return value


def copy_json(value: object) -> object:
    """A copy that shares nothing with the value."""
    return apply_defaults(value, None)


def prune(value: object, schema: Schema | None, *, root: bool = False) -> object:
    """The value without fields that the schema does not know. At a root, what every object has is known as well."""
    return _Pruner().prune(value, schema, ROOT, root=root)


def find_unknown(value: object, schema: Schema | None, *, root: bool = False) -> tuple[Problem, ...]:
    """A problem for each field that `prune` drops, with the most similar known field."""
    pruner = _Pruner()
    pruner.prune(value, schema, ROOT, root=root)
    return collect(_unknown_field(path, parent) for path, parent in pruner.dropped)


def nearest(name: str, known: Iterable[str]) -> str:
    """The most similar known name, or the empty string."""
    if len(name) > _LONGEST_GUESSED:
        return ""
    by_folded = {each.casefold(): each for each in known}
    stem = name.casefold().removesuffix("s")
    begun = [each for folded, each in by_folded.items() if len(stem) >= _SHORTEST_STEM and folded.startswith(stem)]
    if len(begun) == 1:
        return begun[0]
    near = difflib.get_close_matches(name.casefold(), by_folded)
    # Few people mistype the first letter.
    return by_folded[min(near, key=lambda each: each[:1] != stem[:1])] if near else ""


def _default_object(value: Mapping[str, object], schema: Schema | None) -> dict[str, object]:
    filled: dict[str, object] = {}
    for name, item in value.items():
        child = find_child(schema, name)[1]
        replaced = _replace_null(item, child)
        if replaced is not None or child is None or is_nullable(child):
            filled[name] = apply_defaults(replaced, child)
    for name, child in properties_of(schema or {}).items():
        if name not in filled and child.get("default") is not None:
            filled[name] = apply_defaults(child["default"], child)
    return filled


def _replace_null(value: object, schema: Schema | None) -> object:
    """The default in place of a null that is not allowed; null again where there is none."""
    if value is not None or schema is None or is_nullable(schema):
        return value
    return schema.get("default")


class _Pruner:
    """One walk over a value: returns what is kept, and records what is dropped with its parent's schema."""

    __slots__ = ("dropped",)

    def __init__(self) -> None:
        self.dropped: list[tuple[Path, Schema | None]] = []

    def prune(
        self, value: object, schema: Schema | None, path: Path, *, root: bool = False, keep: bool = False
    ) -> object:
        keep = keep or keeps_unknown(schema)
        if isinstance(value, list):
            items = items_of(schema)
            return [self.prune(item, items, (*path, index), keep=keep) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        builtin = META_FIELDS if root or is_resource(schema) else frozenset[str]()
        kept: dict[str, object] = {}
        for name, item in value.items():
            known, child = find_child(schema, name)
            if name in builtin or (keep and not known):
                kept[name] = copy_json(item)
            elif known:
                kept[name] = self.prune(item, child, (*path, _step(name, schema)))
            else:
                self.dropped.append(((*path, name), schema))
        return kept


def _step(name: str, schema: Schema | None) -> str:
    return MapKey(name) if schema is not None and is_map(schema) else name


def _unknown_field(path: Path, parent: Schema | None) -> Problem:
    known = tuple(properties_of(parent or {}))
    guess = nearest(str(path[-1]), known)
    if guess:
        right = f"did you mean {guess}?"
    else:
        right = f"the fields here are {listing(known, last='and')}" if known else "leave it out"
    return Problem(path, "unknown field", right, CauseType.UNKNOWN_FIELD)
