"""Checks manifests against structural schemas as an API server with field validation would: nothing unknown passes.

The schemas are those that `tools/strip_crds.py` writes. Rules and defaults are not in them; an API server has the last
word on those.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Schema = Mapping[str, object]
_METADATA = frozenset({"name", "namespace", "labels", "annotations", "generateName", "finalizers", "ownerReferences"})
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": Mapping,
    "array": (list, tuple),
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_LEAST = {
    "minimum": "is less than",
    "minLength": "is shorter than",
    "minItems": "has fewer items than",
    "minProperties": "has fewer entries than",
}
_MOST = {
    "maximum": "is more than",
    "maxLength": "is longer than",
    "maxItems": "has more items than",
    "maxProperties": "has more entries than",
}


@dataclass(frozen=True, slots=True)
class Structures:
    """The kinds that are known, with the parts that they share."""

    kinds: Mapping[str, Schema]
    shared: Mapping[str, Schema]

    def problems(self, item: Mapping[str, object]) -> list[str]:
        """Everything that is wrong with a manifest, each with its place."""
        name = f"{item.get('apiVersion')}/{item.get('kind')}"
        schema = self.kinds.get(name)
        if schema is None:
            return [f"{name}: no such kind"]
        body = {key: value for key, value in item.items() if key != "metadata"}
        unknown = [f".metadata.{key}: unknown field" for key in _keys(item.get("metadata")) if key not in _METADATA]
        return [*unknown, *self._check(body, schema, "")]

    def _check(self, value: object, schema: Schema, path: str) -> Iterator[str]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = self.shared[reference]
        if schema.get("x-kubernetes-int-or-string"):
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                yield f"{path}: {value!r} is neither a number nor a text"
            return
        wanted = schema.get("type")
        if isinstance(wanted, str) and not _is_a(value, wanted):
            yield f"{path}: {value!r} is no {wanted}"
            return
        yield from _limits(value, schema, path)
        if isinstance(value, Mapping):
            yield from self._check_object(value, schema, path)
        elif isinstance(value, list | tuple):
            items = schema.get("items")
            for index, entry in enumerate(value if isinstance(items, Mapping) else ()):
                yield from self._check(entry, items if isinstance(items, Mapping) else {}, f"{path}[{index}]")

    def _check_object(self, value: Mapping[str, object], schema: Schema, path: str) -> Iterator[str]:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        known = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        for name in required if isinstance(required, Sequence) else ():
            if name not in value and not (path == "" and name == "metadata"):
                yield f"{path}.{name}: required"
        for name, entry in value.items():
            if name in known:
                yield from self._check(entry, known[name], f"{path}.{name}")
            elif isinstance(others, Mapping):
                yield from self._check(entry, others, f"{path}.{name}")
            elif not others and not schema.get("x-kubernetes-preserve-unknown-fields") and (known or path == ""):
                yield f"{path}.{name}: unknown field"


def _is_a(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])


def _limits(value: object, schema: Schema, path: str) -> Iterator[str]:
    allowed = schema.get("enum")
    if isinstance(allowed, Sequence) and value not in allowed:
        yield f"{path}: {value!r} is none of {list(allowed)}"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and isinstance(value, str) and not re.search(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
    size = value if isinstance(value, int | float) else len(value) if isinstance(value, str | Sequence | Mapping) else 0
    for name, words in (*_LEAST.items(), *_MOST.items()):
        bound = schema.get(name)
        if isinstance(bound, int | float) and (size < bound if name in _LEAST else size > bound):
            yield f"{path}: {value!r} {words} {bound}"


def _keys(value: object) -> list[str]:
    return list(value) if isinstance(value, Mapping) else []
