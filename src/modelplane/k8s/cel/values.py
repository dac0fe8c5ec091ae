"""The values an expression computes with, and what type each of them has at run time.

    bool int float str bytes None      themselves
    Uint                               an int of its own kind
    list, tuple, range, Rope           list; a Rope is two lists not yet copied together
    dict                               map whose keys are all strings
    TextMap                            the same, written in the expression itself
    KeyedMap                           any other map
    Duration, Timestamp, Optional      as named
    Type                               a type
    Quantity, MutableQuantity, Version    Kubernetes' own, as are the values of the url, ip, cidr and format libraries

A dict subclass with other lookup rules defines `find`. Values are immutable once an expression can see them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import Quantity
from modelplane.k8s.semver import Version

MIN_INT, MAX_INT = -(2**63), 2**63 - 1
MAX_UINT = 2**64 - 1
_MIN_ROPE = 256


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, order=True)
class CelDuration:
    """A span of time in nanoseconds, within an int64."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since 1970; `offset` seconds east of UTC is how it was written and matters to its text alone."""

    nanos: int
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Timestamp") -> bool:
        return self.nanos < other.nanos


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be missing; there is one empty Optional, NONE."""

    value: object


NONE = Optional(None)


class Rope:
    """The concatenation of two lists. Repeated doubling costs nothing until an element is read."""

    __slots__ = ("left", "right", "size")

    def __init__(self, left: "ListValue", right: "ListValue") -> None:
        self.left = left
        self.right = right
        self.size = list_size(left) + list_size(right)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[object]:
        pending: list[ListValue] = [self]
        while pending:
            part = pending.pop()
            if isinstance(part, Rope):
                pending += (part.right, part.left)
            else:
                yield from part

    def __getitem__(self, index: int) -> object:
        part: ListValue = self
        while isinstance(part, Rope):
            size = list_size(part.left)
            if index < size:
                part = part.left
            else:
                part, index = part.right, index - size
        return part[index]


class KeyedMap:
    """A map with keys other than strings: numbers that are equal find each other, true and 1 do not."""

    __slots__ = ("_entries",)

    def __init__(self, pairs: list[tuple[object, object]]) -> None:
        self._entries: dict[object, tuple[object, object]] = {_slot(key): (key, value) for key, value in pairs}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[object]:
        return iter([key for key, _ in self._entries.values()])

    def items(self) -> Iterator[tuple[object, object]]:
        """The pairs of key and value."""
        return iter(self._entries.values())

    def put(self, key: object, value: object) -> None:
        """Adds or replaces an entry; only for a map that is not shared yet."""
        self._entries[_slot(key)] = (key, value)

    def find(self, key: object) -> tuple[bool, object]:
        """Whether the key is there, and its value; a number finds an equal one of another type."""
        found = self._entries.get(_slot(key))
        if found is not None:
            return True, found[1]
        if isinstance(key, int | float) and not isinstance(key, bool):
            return self._find_number(key)
        return False, None

    def _find_number(self, key: float) -> tuple[bool, object]:
        for kind in (int, Uint, float):
            found = self._entries.get((kind, key))
            if found is not None:
                return True, found[1]
        return False, None


class TextMap(dict[str, object]):
    """A map made by an expression whose keys are all strings; a lookup of an unhashable key is an error."""

    __slots__ = ()

    def find(self, key: object) -> tuple[bool, object]:
        """Whether the key is there, and its value."""
        if type(key) is str:
            return key in self, self.get(key)
        if self:
            check_hashable(key)
        return False, None


def _slot(key: object) -> object:
    check_hashable(key)
    if isinstance(key, str | bool | int | float | Timestamp | CelDuration | CelType) or key is None:
        return type(key), key
    return id(key)


def check_hashable(value: object) -> None:
    """Ends the evaluation for a value that Go cannot hash; a class marks it by `cel_unhashable`."""
    if isinstance(value, bytes | Version) or hasattr(value, "cel_unhashable"):
        raise EvaluationAborted(f"a value of type {runtime_type(value).name} cannot be hashed")


ListValue: TypeAlias = "list[object] | tuple[object, ...] | range | Rope"
MapValue: TypeAlias = "dict[str, object] | KeyedMap"

_RUNTIME_TYPES: dict[type, CelType] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
    list: t.LIST,
    tuple: t.LIST,
    range: t.LIST,
    Rope: t.LIST,
    dict: t.MAP,
    TextMap: t.MAP,
    KeyedMap: t.MAP,
    CelDuration: t.DURATION,
    Timestamp: t.TIMESTAMP,
    Optional: t.OPTIONAL,
    CelType: t.TYPE,
    Quantity: t.QUANTITY,
    MutableQuantity: t.QUANTITY,
    Version: t.SEMVER,
}


def register(python_type: type, cel_type: CelType) -> None:
    """Makes values of a Python class values of a CEL type; libraries do this once, when imported."""
    _RUNTIME_TYPES[python_type] = cel_type


def runtime_type(value: object) -> CelType:
    """The type that a value has when the expression runs."""
    found = _RUNTIME_TYPES.get(type(value))
    return found if found is not None else _object_type(value)


def _object_type(value: object) -> CelType:
    declared = getattr(value, "cel_type", None)
    if isinstance(declared, CelType):
        return declared
    return t.MAP if is_map(value) else t.LIST


def is_list(value: object) -> "TypeGuard[ListValue]":
    """Whether a value is a list."""
    return isinstance(value, list | tuple | range | Rope)


def is_map(value: object) -> "TypeGuard[MapValue]":
    """Whether a value is a map or an object with fields."""
    return isinstance(value, dict | KeyedMap)


def list_size(value: "ListValue") -> int:
    """How many elements a list has."""
    return value.size if isinstance(value, Rope) else len(value)


def concatenated(left: "ListValue", right: "ListValue") -> "ListValue":
    """The elements of both lists."""
    if not list_size(left):
        return right
    if not list_size(right):
        return left
    if list_size(left) + list_size(right) < _MIN_ROPE:
        return [*left, *right]
    return Rope(left, right)


def make_map(pairs: list[tuple[object, object]]) -> "MapValue":
    """The map of the pairs, where a later pair replaces an earlier one with the same key."""
    if all(type(key) is str for key, _ in pairs):
        return TextMap([(key, value) for key, value in pairs if type(key) is str])
    return KeyedMap(pairs)


def find(mapping: object, key: object) -> tuple[bool, object]:
    """Whether a map has the key, and its value. A map with rules of its own applies them."""
    if type(mapping) is dict:
        return (key in mapping, mapping.get(key)) if type(key) is str else (False, None)
    search: Callable[[object], tuple[bool, object]] | None
    search = getattr(mapping, "find", None) if isinstance(mapping, dict | KeyedMap) else None
    return (False, None) if search is None else search(key)


def contains_key(mapping: object, key: object) -> bool:
    """Whether a key is really there, also in a map that answers for keys it does not have."""
    has: Callable[[object], bool] | None = getattr(mapping, "cel_has", None)
    return find(mapping, key)[0] if has is None else has(key)


def map_items(mapping: "MapValue") -> Iterator[tuple[object, object]]:
    """The pairs of a map, in the order of its making."""
    return iter(mapping.items())


def size_of(value: object) -> int | None:
    """The size of a value that has one, else None."""
    if isinstance(value, Rope):
        return value.size
    if isinstance(value, str | bytes | list | tuple | range | dict | KeyedMap):
        return len(value)
    size: Callable[[], int] | None = getattr(value, "cel_size", None)
    return size() if size is not None else None


def no_overload(function: str, *args: object) -> EvaluationError:
    """The error of a function that has no variant for the types at hand."""
    shown = ", ".join(runtime_type(arg).name for arg in args)
    return EvaluationError(f"no such overload: {function}({shown})")


def as_string_map(value: Mapping[str, object]) -> dict[str, object]:
    """A plain mapping as a map value."""
    return value if type(value) is dict else dict(value)
