"""The part of kubectl's JSONPath that finds values in one object.

    {.status.replicas}   {.metadata.labels['a.b/c']}   {.spec.engines[0].name}   {.spec.engines[*].name}
    {.status.conditions[?(@.type=="Ready")].status}

Braces and the first dot may be left out. A path that finds nothing finds no values; it is no error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from modelplane.api.errors import InputError

_Step = Callable[[object], Iterator[object]]
_TOKEN = re.compile(
    r"""\.(?P<field>(?:[\w-]|\\.)+)
    |\['(?P<quoted>[^']+)'\]
    |\[(?P<index>-?[0-9]{1,6})\]
    |(?P<every>\[\*\])
    |\[\?\(@\.(?P<path>[\w.-]+)\s*==\s*(?P<mark>["'])(?P<value>[^"']*)(?P=mark)\)\]""",
    re.VERBOSE,
)


def read_jsonpath(text: str) -> Callable[[object], list[object]]:
    """The function that finds the values in an object."""
    steps = list(_steps(text))

    def found(item: object) -> list[object]:
        values: Iterable[object] = [item]
        for step in steps:
            values = [each for value in values for each in step(value)]
        return list(values)

    return found


def _steps(text: str) -> Iterator[_Step]:
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    path = inner if inner.startswith((".", "[")) else f".{inner}"
    at = 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            raise InputError(f"{text!r} is no JSONPath that is known here, such as {{.status.replicas}}")
        at = token.end()
        yield _step(token)


def _step(token: re.Match[str]) -> _Step:
    if token["field"]:
        return _field(re.sub(r"\\(.)", r"\1", token["field"]))
    if token["quoted"]:
        return _field(token["quoted"])
    if token["every"]:
        return _every
    if token["index"]:
        return _index(int(token["index"]))
    return _where(token["path"].split("."), token["value"])


def _field(name: str) -> _Step:
    def values(item: object) -> Iterator[object]:
        if isinstance(item, Mapping) and name in item:
            yield item[name]

    return values


def _index(number: int) -> _Step:
    def values(item: object) -> Iterator[object]:
        if isinstance(item, list) and -len(item) <= number < len(item):
            yield item[number]

    return values


def _every(item: object) -> Iterator[object]:
    if isinstance(item, list):
        yield from item
    elif isinstance(item, Mapping):
        yield from item.values()


def _where(names: list[str], wanted: str) -> _Step:
    def values(item: object) -> Iterator[object]:
        for each in _every(item):
            found = each
            for name in names:
                found = found.get(name) if isinstance(found, Mapping) else None
            if found is not None and text_of(found) == wanted:
                yield each

    return values


def text_of(value: object) -> str:
    """As kubectl prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
