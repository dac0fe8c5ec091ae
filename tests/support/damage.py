"""Inputs that are damaged: dropped, emptied, shortened, repeated, aged or garbled.

A state is a tree of plain values. What may be damaged is a list of places in it; a damage is one place and one edit.
Trees are copied along the path only, so that a case costs little.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]
AGES = ("1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z")
GARBAGE = (None, 7, -1, 10**12, True, "", "x", "é", [], {}, [{}], [7], {"metadata": None}, {"x": [1]}, *AGES)
_DROP = object()


def paths(value: object, prefix: Path, depth: int) -> Iterator[Path]:
    """The place itself and those below it, down to a depth."""
    yield prefix
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from paths(inner, (*prefix, name), depth - 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from paths(inner, (*prefix, index), depth - 1)


def at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def damages(most: int = 4) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Which places, and which edits; both count round."""
    return st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 2**12)), min_size=1, max_size=most)


def damaged(tree: Any, places: Sequence[Path], chosen: Sequence[tuple[int, int]]) -> Any:
    for place, edit in chosen:
        tree = _edited(tree, places[place % len(places)], edit)
    return tree


def _edited(tree: Any, path: Path, edit: int) -> Any:
    """The tree with one place edited; as it is where an earlier edit removed the place."""
    try:
        value = at(tree, path)
    except (KeyError, IndexError, TypeError):
        return tree
    edits = _edits(value)
    return _with(tree, path, edits[edit % len(edits)])


def _edits(value: Any) -> list[Any]:
    found: list[Any] = [_DROP, *GARBAGE]
    if isinstance(value, tuple | list):
        kind = type(value)
        found = [_DROP, kind(), value[:1], value[1:], value[::-1], value[len(value) // 2 :], value + value]
        found += [value + kind(item) for item in ([{}], [{"metadata": 7}], value[:1])]
        # A list that was fetched has objects only.
        return found if kind is tuple else [*found, *GARBAGE]
    return found


def _with(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(tree, Mapping):
        if not rest and value is _DROP:
            return {name: inner for name, inner in tree.items() if name != step}
        return {**tree, step: _with(tree[step], rest, value)}
    if not rest and value is _DROP:
        return type(tree)([*tree[:step], *tree[step + 1 :]])
    if not rest and isinstance(tree, tuple) and not isinstance(value, Mapping):
        value = {}
    return type(tree)([*tree[:step], _with(tree[step], rest, value), *tree[step + 1 :]])
