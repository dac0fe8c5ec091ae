"""The static types of CEL, interned: two types are the same exactly when they are the same object.

`any` is the type of a device attribute: it accepts everything as `dyn` does, but the checker distinguishes them in
result types. A type is also a value: `type(x)` yields one at run time, compared by name.
"""

import enum
from typing import Final
from weakref import WeakValueDictionary


class TypeKind(enum.Enum):
    """The general category of a type."""

    # The default hashes the member's name in Python code, and kinds are frequent set members.
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


class CelType:
    """A type; `generic`: it contains a type parameter."""

    __slots__ = ("__weakref__", "generic", "is_dynamic", "kind", "name", "params")

    kind: TypeKind
    name: str
    params: "tuple[CelType, ...]"
    generic: bool
    is_dynamic: bool

    def __init__(self, kind: TypeKind, name: str, params: "tuple[CelType, ...]" = ()) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.generic = kind is TypeKind.PARAM or (bool(params) and any(param.generic for param in params))
        self.is_dynamic = kind in _DYNAMIC

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if self.kind is TypeKind.ANY:
            return "any"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(str(param) for param in self.params)})"


_DYNAMIC: Final = frozenset({TypeKind.DYN, TypeKind.ANY})
# Weak, because expressions of strangers make types of their own and must not fill the memory with them.
_interned: Final[WeakValueDictionary[tuple[object, ...], CelType]] = WeakValueDictionary()


def _intern(kind: TypeKind, name: str, *params: CelType) -> CelType:
    key = (kind, name, *params)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = CelType(kind, name, params)
    return found


ANY: Final = _intern(TypeKind.ANY, "google.protobuf.Any")
BOOL: Final = _intern(TypeKind.BOOL, "bool")
BYTES: Final = _intern(TypeKind.BYTES, "bytes")
DOUBLE: Final = _intern(TypeKind.DOUBLE, "double")
DURATION: Final = _intern(TypeKind.DURATION, "google.protobuf.Duration")
DYN: Final = _intern(TypeKind.DYN, "dyn")
INT: Final = _intern(TypeKind.INT, "int")
NULL: Final = _intern(TypeKind.NULL, "null_type")
STRING: Final = _intern(TypeKind.STRING, "string")
TIMESTAMP: Final = _intern(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = _intern(TypeKind.TYPE, "type")
UINT: Final = _intern(TypeKind.UINT, "uint")


def list_of(element: CelType) -> CelType:
    """`list(element)`."""
    return _intern(TypeKind.LIST, "list", element)


def map_of(key: CelType, value: CelType) -> CelType:
    """`map(key, value)`."""
    return _intern(TypeKind.MAP, "map", key, value)


def optional_of(value: CelType) -> CelType:
    """`optional_type(value)`."""
    return _intern(TypeKind.OPAQUE, "optional_type", value)


def type_of(denoted: CelType) -> CelType:
    """The type of an expression that denotes the type `denoted`."""
    return _intern(TypeKind.TYPE, "type", denoted)


def struct(name: str) -> CelType:
    """A type known by its name, with fields or none; the name is its identity."""
    return _intern(TypeKind.STRUCT, name)


def opaque(name: str) -> CelType:
    """A type known by its name that never has fields."""
    return _intern(TypeKind.OPAQUE, name)


def param(name: str) -> CelType:
    """A type parameter, equal in all declarations that use its name."""
    return _intern(TypeKind.PARAM, name)


def fresh_param(name: str) -> CelType:
    """A type variable of one checker run; it is new, so it is not interned."""
    return CelType(TypeKind.PARAM, name)


def rebuilt(pattern: CelType, params: tuple[CelType, ...]) -> CelType:
    """`pattern` with other parameters in place of its own."""
    if any(param.generic for param in params):
        return CelType(pattern.kind, pattern.name, params)
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
