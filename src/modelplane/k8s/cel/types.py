"""The static types of CEL, interned: two types are the same exactly when they are the same object.

`any` is what a device attribute has: it accepts everything as `dyn` does, but the checker tells the two apart where a
result type is asked for. A type is also a value: `type(x)` yields one at run time, compared by name alone.
"""

import enum
from typing import Final
from weakref import WeakValueDictionary


class Kind(enum.Enum):
    """The general category of a type."""

    # The default hashes the member's name in Python code, and kinds are looked up in sets all the time.
    __hash__ = object.__hash__

    ANY = enum.auto()
    BOOL = enum.auto()
    BYTES = enum.auto()
    DOUBLE = enum.auto()
    DURATION = enum.auto()
    DYN = enum.auto()
    INT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    NULL = enum.auto()
    OPAQUE = enum.auto()
    STRING = enum.auto()
    STRUCT = enum.auto()
    TIMESTAMP = enum.auto()
    TYPE = enum.auto()
    PARAM = enum.auto()
    UINT = enum.auto()


class Type:
    """A type; `generic` says that a parameter occurs somewhere inside."""

    __slots__ = ("__weakref__", "generic", "is_dynamic", "kind", "name", "params")

    kind: Kind
    name: str
    params: "tuple[Type, ...]"
    generic: bool
    is_dynamic: bool

    def __init__(self, kind: Kind, name: str, params: "tuple[Type, ...]" = ()) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.generic = kind is Kind.PARAM or (bool(params) and any(param.generic for param in params))
        self.is_dynamic = kind in _DYNAMIC

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "any"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(str(param) for param in self.params)})"


_DYNAMIC: Final = frozenset({Kind.DYN, Kind.ANY})
# Weak, because expressions of strangers make types of their own and must not fill the memory with them.
_interned: Final[WeakValueDictionary[tuple[object, ...], Type]] = WeakValueDictionary()


def _intern(kind: Kind, name: str, *params: Type) -> Type:
    key = (kind, name, *params)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = Type(kind, name, params)
    return found


ANY: Final = _intern(Kind.ANY, "google.protobuf.Any")
BOOL: Final = _intern(Kind.BOOL, "bool")
BYTES: Final = _intern(Kind.BYTES, "bytes")
DOUBLE: Final = _intern(Kind.DOUBLE, "double")
DURATION: Final = _intern(Kind.DURATION, "google.protobuf.Duration")
DYN: Final = _intern(Kind.DYN, "dyn")
INT: Final = _intern(Kind.INT, "int")
NULL: Final = _intern(Kind.NULL, "null_type")
STRING: Final = _intern(Kind.STRING, "string")
TIMESTAMP: Final = _intern(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = _intern(Kind.TYPE, "type")
UINT: Final = _intern(Kind.UINT, "uint")


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return _intern(Kind.LIST, "list", element)


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return _intern(Kind.MAP, "map", key, value)


def optional_of(value: Type) -> Type:
    """`optional_type(value)`."""
    return _intern(Kind.OPAQUE, "optional_type", value)


def type_of(denoted: Type) -> Type:
    """The type of an expression that denotes the type `denoted`."""
    return _intern(Kind.TYPE, "type", denoted)


def struct(name: str) -> Type:
    """A type known by its name, with fields or none; the name is its identity."""
    return _intern(Kind.STRUCT, name)


def opaque(name: str) -> Type:
    """A type known by its name that never has fields."""
    return _intern(Kind.OPAQUE, name)


def param(name: str) -> Type:
    """A type parameter, alike in all declarations that use its name."""
    return _intern(Kind.PARAM, name)


def fresh_param(name: str) -> Type:
    """A type variable of one checker run; it is new, so it is not interned."""
    return Type(Kind.PARAM, name)


def rebuilt(pattern: Type, params: tuple[Type, ...]) -> Type:
    """`pattern` with other parameters in place of its own."""
    if any(param.generic for param in params):
        return Type(pattern.kind, pattern.name, params)
    return _intern(pattern.kind, pattern.name, *params)


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = opaque("optional_type")

QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
URL: Final = struct("kubernetes.URL")
FORMAT: Final = struct("kubernetes.NamedFormat")
IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")
