"""Sets of fields, and their written form (`fieldsV1` of metadata.managedFields).

A field is a path of steps, each spelled as in the written form:

    f:NAME          a field of an object, or a key of a map
    k:{"a":"b"}     the item of a keyed list whose keys have these values
    v:VALUE         a member of a list that is a set

In the written form a step without children is a member; a member with children has the key ".".
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from modelplane.api.objects import Json

Field = tuple[str, ...]
FieldSet = frozenset[Field]

EMPTY: FieldSet = frozenset()

_Tree: TypeAlias = dict[str, "_Tree"]

_REMEMBERED = 256


def written(fields: Iterable[Field]) -> Json:
    """The tree of the fields, in order."""
    root: _Tree = {}
    for field in sorted(fields):
        _insert(root, field)
    return dict(root)


def _insert(root: _Tree, field: Field) -> None:
    """Members are sorted, so an ancestor that is a member is already in the tree, as a leaf."""
    node = root
    for depth, step in enumerate(field):
        below = node.get(step)
        if below is None:
            below = node[step] = {}
        elif depth < len(field) - 1 and not below:
            below["."] = {}
        node = below


def read(tree: object) -> FieldSet:
    """The fields of a written tree. ValueError where it is none."""
    return _read(msgspec.json.encode(tree))


@lru_cache(maxsize=_REMEMBERED)
def _read(encoded: bytes) -> FieldSet:
    """Writers come back with the trees that they left, and many objects have the same ones."""
    return frozenset(_members(msgspec.json.decode(encoded), ()))


def _members(node: object, above: Field) -> Iterable[Field]:
    if not isinstance(node, Mapping):
        place = "/".join(above) or "the root"
        raise ValueError(f"fieldsV1: {place} is no object")  # noqa: TRY004  a wrong document, not a wrong call
    if not node and above:
        yield above
    for step, below in node.items():
        if step == ".":
            yield above
        elif step[:2] in {"f:", "k:", "v:", "i:"}:
            yield from _members(below, (*above, step))
        else:
            raise ValueError(f"fieldsV1: {step!r} is no step")


def under(fields: FieldSet, prefixes: Iterable[Field]) -> FieldSet:
    """The fields that are at or below one of the prefixes."""
    starts = tuple(prefixes)
    return frozenset(field for field in fields if any(field[: len(start)] == start for start in starts))


def spelled(field: Field) -> str:
    """A field as messages name it: .spec.devices[name="gpu"].count."""
    return "".join(_spelled(step) for step in field)


def _spelled(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "k:":
        keys = msgspec.json.decode(text, type=dict[str, object])
        return f"[{','.join(f'{name}={_quoted(value)}' for name, value in keys.items())}]"
    return f"[={text}]" if kind == "v:" else f".{text}"


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()
