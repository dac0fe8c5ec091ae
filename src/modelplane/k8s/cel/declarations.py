"""Function declarations: overloads, their types, and dispatch.

A function has overloads in a fixed order: the checker keeps all that fit, and their order decides the result type. At
run time a call that the checker narrowed to one overload runs that one, after a guard that checks the runtime types;
otherwise the first overload whose guard accepts the values runs. A function with `singleton` has one body for all of
its overloads, which checks the types itself.

Signatures are written as text, `list(A).indexOf(A) -> int` for a method and `size(list(A)) -> int` for a function,
and read once when the libraries are imported.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.types import CelType, TypeKind
from modelplane.k8s.cel.values import is_list, is_map, list_size, map_items, no_overload, runtime_type

Body: TypeAlias = Callable[..., object]
Guard: TypeAlias = Callable[[object], bool]

_NAMED_TYPES = {
    "any": t.ANY,
    "bool": t.BOOL,
    "bytes": t.BYTES,
    "double": t.DOUBLE,
    "duration": t.DURATION,
    "dyn": t.DYN,
    "int": t.INT,
    "string": t.STRING,
    "timestamp": t.TIMESTAMP,
    "uint": t.UINT,
    "Quantity": t.QUANTITY,
    "Semver": t.SEMVER,
    "URL": t.URL,
    "Format": t.FORMAT,
    "IP": t.IP,
    "CIDR": t.CIDR,
}


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One variant of a function; a method's receiver is its first parameter."""

    id: str
    function: str
    params: tuple[CelType, ...]
    result: CelType
    member: bool
    body: Body | None
    guards: tuple[Guard | None, ...]
    variables: tuple[CelType, ...]

    def accepts(self, args: tuple[object, ...]) -> bool:
        """Whether the values have the types that the body relies on."""
        if len(args) != len(self.guards):
            return False
        return all(guard is None or guard(arg) for guard, arg in zip(self.guards, args, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDecl:
    """All overloads of one name. `resolved` caches the checker's result for argument types without variables."""

    name: str
    overloads: tuple[Overload, ...]
    singleton: Body | None = None
    guarded: bool = True
    resolved: "dict[tuple[bool, tuple[CelType, ...]], tuple[tuple[Overload, ...], CelType]]" = field(
        default_factory=dict
    )
    _by_style: dict[tuple[bool, int], tuple[Overload, ...]] = field(default_factory=dict)

    def candidates(self, *, member: bool, count: int) -> tuple[Overload, ...]:
        """The overloads that a call of this style and with so many values may mean."""
        found = self._by_style.get((member, count))
        if found is None:
            found = tuple([o for o in self.overloads if o.member is member and len(o.params) == count])
            self._by_style[member, count] = found
        return found

    def body_for(self, overloads: tuple[Overload, ...]) -> Body | None:
        """The body of a call that the checker narrowed to `overloads`; None if no overload can run."""
        if self.singleton is not None:
            return self.singleton
        chosen = overloads[0] if len(overloads) == 1 else None
        if len(self.overloads) == 1:
            chosen = self.overloads[0]
        if chosen is not None and chosen.body is not None:
            return self._guarded(chosen)
        return self.dispatch if any(overload.body for overload in self.overloads) else None

    def _guarded(self, overload: Overload) -> Body:
        body = overload.body
        if body is None or not self.guarded or all(guard is None for guard in overload.guards):
            return body or self.dispatch

        def guarded(*args: object) -> object:
            if overload.accepts(args):
                return body(*args)
            raise no_overload(self.name, *args)

        return guarded

    def dispatch(self, *args: object) -> object:
        """Runs the first overload that accepts the values."""
        for overload in self.overloads:
            if overload.body is not None and overload.accepts(args):
                return overload.body(*args)
        raise no_overload(self.name, *args)


def overload(identifier: str, signature: str, body: Body | None = None) -> Overload:
    """An overload from the text of its signature."""
    name, member, params, result = _parse_signature(signature)
    variables: dict[CelType, None] = {}
    for mentioned in (*params, result):
        _collect_variables(mentioned, variables)
    guards = tuple(_guard(param) for param in params)
    return Overload(identifier, name, params, result, member, body, guards, tuple(variables))


def collect(*groups: Iterable[Overload | FunctionDecl]) -> dict[str, FunctionDecl]:
    """The functions that the groups declare; overloads of one name join in the order they are met."""
    functions: dict[str, FunctionDecl] = {}
    for group in groups:
        for declared in group:
            known = functions.get(declared.name if isinstance(declared, FunctionDecl) else declared.function)
            functions[declared.name if isinstance(declared, FunctionDecl) else declared.function] = _merged(
                known, declared
            )
    return functions


def _merged(known: FunctionDecl | None, declared: Overload | FunctionDecl) -> FunctionDecl:
    if isinstance(declared, FunctionDecl):
        if known is None:
            return declared
        return FunctionDecl(known.name, known.overloads + declared.overloads, declared.singleton, known.guarded)
    if known is None:
        return FunctionDecl(declared.function, (declared,))
    return FunctionDecl(known.name, (*known.overloads, declared), known.singleton)


def _collect_variables(mentioned: CelType, into: dict[CelType, None]) -> None:
    if mentioned.kind is TypeKind.PARAM:
        into[mentioned] = None
    for inner in mentioned.params:
        _collect_variables(inner, into)


def _parse_signature(signature: str) -> tuple[str, bool, tuple[CelType, ...], CelType]:
    head, _, result = signature.partition(" -> ")
    split = _receiver_end(head)
    receiver, call = (head[:split], head[split + 1 :]) if split else ("", head)
    name, _, inside = call.partition("(")
    params = tuple(_parse_type(text) for text in _split_arguments(inside[:-1]))
    if receiver:
        return name, True, (_parse_type(receiver), *params), _parse_type(result)
    return name, False, params, _parse_type(result)


def _receiver_end(head: str) -> int:
    """The position of the dot between a receiver type and a method name; zero without a receiver."""
    match = re.match(
        r"(?:[A-Z]\w*|bool|bytes|double|duration|dyn|int|string|timestamp|uint|(?:list|map|optional)\(.*\))\.", head
    )
    return match.end() - 1 if match else 0


def _split_arguments(text: str) -> list[str]:
    parts: list[str] = []
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text else []


def _parse_type(text: str) -> CelType:
    name, paren, inside = text.partition("(")
    if not paren:
        return _NAMED_TYPES[name] if name in _NAMED_TYPES else _simple(name)
    inner = [_parse_type(part) for part in _split_arguments(inside[:-1])]
    if name == "list":
        return t.list_of(inner[0])
    if name == "map":
        return t.map_of(inner[0], inner[1])
    return t.optional_of(inner[0]) if name == "optional" else t.type_of(inner[0])


def _simple(name: str) -> CelType:
    return t.param(name) if len(name) == 1 else t.struct(f"kubernetes.authorization.{name}")


def _guard(expected: CelType) -> Guard | None:
    """A test that a value has the type, as deep as upstream checks: only the first element of a list or map."""
    if expected.is_dynamic or expected.kind is TypeKind.PARAM:
        return None
    name = expected.name
    inner = tuple(_guard(param) for param in expected.params)
    if expected.kind is TypeKind.LIST and inner[0] is not None:
        return _list_guard(inner[0])
    if expected.kind is TypeKind.LIST:
        return is_list
    if expected.kind is TypeKind.MAP:
        return _map_guard(inner) if any(inner) else is_map
    return lambda value: runtime_type(value).name == name


def _list_guard(element: Guard) -> Guard:
    def accepts(value: object) -> bool:
        return is_list(value) and (not list_size(value) or element(next(iter(value))))

    return accepts


def _map_guard(inner: tuple[Guard | None, ...]) -> Guard:
    key_guard, value_guard = inner

    def accepts(value: object) -> bool:
        if not is_map(value):
            return False
        for key, entry in map_items(value):
            return (key_guard is None or key_guard(key)) and (value_guard is None or value_guard(entry))
        return True

    return accepts


Functions: TypeAlias = Mapping[str, FunctionDecl]
