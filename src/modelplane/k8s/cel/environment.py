"""The environment of an expression: variables, types with fields, and functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.declarations import FunctionDecl
from modelplane.k8s.cel.types import CelType

# Names of types; at run time their values are the types.
TYPE_NAMES: dict[str, CelType] = {
    "bool": t.BOOL,
    "bytes": t.BYTES,
    "double": t.DOUBLE,
    "google.protobuf.Duration": t.DURATION,
    "int": t.INT,
    "list": t.list_of(t.param("A")),
    "map": t.map_of(t.param("A"), t.param("B")),
    "null_type": t.NULL,
    "string": t.STRING,
    "google.protobuf.Timestamp": t.TIMESTAMP,
    "type": t.TYPE,
    "uint": t.UINT,
    "optional_type": t.OPTIONAL,
    "net.IP": t.IP,
    "net.CIDR": t.CIDR,
}


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """`structs` gives the fields of each type that has some."""

    variables: Mapping[str, CelType]
    structs: Mapping[str, Mapping[str, CelType]]
    functions: Mapping[str, FunctionDecl]
    type_names: Mapping[str, CelType] = field(default_factory=lambda: TYPE_NAMES)
