"""The JSONPath of printer columns and of `kubectl wait`: fields, indices, `[*]`, filters such as ?(@.type=='Ready').

Braces and the first dot may be left out. A path that finds nothing is no error.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

_STEP: Final = re.compile(
    r"""\.?\[\?\(\s*@(?P<field>[^=!<>\s]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>'[^']*'|"[^"]*"|[^)\s]+)\s*)?\)\]"""
    r"""|\.?\[(?P<index>-?\d+)\]"""
    r"""|\.?\[(?P<all>\*)\]|\.(?P<star>\*)"""
    r"""|\[(?P<quoted>'[^']*'|"[^"]*")\]"""
    r"""|\.?(?P<name>(?:\\.|[^.\[\]\\\s])+)"""
)
_ORDER: Final[dict[str, Callable[[object, object], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: _less(one, other),  # noqa: PLW0108  defined below
    ">": lambda one, other: _less(other, one),
    "<=": lambda one, other: one == other or _less(one, other),
    ">=": lambda one, other: one == other or _less(other, one),
}

Step = Callable[[object], Iterable[object]]


def find(path: str, value: object) -> list[object]:
    """All values at the path. Empty if a part of the path is missing."""
    found = [value]
    for step in _compiled(path):
        found = [item for each in found for item in step(each)]
    return found


@lru_cache(maxsize=512)
def _compiled(path: str) -> tuple[Step, ...]:
    """The steps of a path. ValueError where it cannot be read."""
    text, place, steps = path.strip().removeprefix("{").removesuffix("}").removeprefix("$"), 0, list[Step]()
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise ValueError(f"{path!r} cannot be read as a JSONPath from {text[place:]!r} on")
        steps.append(_step(found))
        place = found.end()
    return tuple(steps)


def _step(found: "re.Match[str]") -> Step:
    groups = found.groupdict()
    if groups["index"] is not None:
        return _at(int(groups["index"]))
    if groups["all"] or groups["star"]:
        return _everything
    if groups["field"] is not None:
        return _matching(groups["field"], groups["op"], groups["value"])
    name = groups["quoted"][1:-1] if groups["quoted"] else re.sub(r"\\(.)", r"\1", groups["name"])
    return _named(name)


def _named(name: str) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, dict) and value.get(name) is not None:
            yield value[name]

    return step


def _at(index: int) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _everything(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _matching(field: str, operator: str | None, literal: str | None) -> Step:
    wanted = _literal(literal) if literal is not None else None

    def step(value: object) -> Iterator[object]:
        for item in value if isinstance(value, list) else ():
            found = find(field, item)
            if found and (operator is None or _ORDER[operator](found[0], wanted)):
                yield item

    return step


def _literal(text: str) -> object:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _less(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one < other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one < other
    return False
