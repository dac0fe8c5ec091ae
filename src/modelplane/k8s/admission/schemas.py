"""Reading an OpenAPI v3 schema as CustomResourceDefinitions have them (structural schemas)."""

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

Schema: TypeAlias = Mapping[str, object]

META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))
"""The fields that every object has; the API server checks these by itself."""

_EMPTY: Final[Mapping[str, Schema]] = {}


def properties_of(schema: Schema) -> Mapping[str, Schema]:
    return cast("Mapping[str, Schema]", schema.get("properties", _EMPTY))


def items_of(schema: Schema | None) -> Schema | None:
    return cast("Schema | None", schema.get("items")) if schema is not None else None


def find_child(schema: Schema | None, name: str) -> tuple[bool, Schema | None]:
    """Whether an object may have the field, and the field's schema where there is one."""
    if schema is None:
        return False, None
    properties = properties_of(schema)
    if name in properties:
        return True, properties[name]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return True, additional
    return additional is True, None


def is_map(schema: Schema) -> bool:
    """Whether the keys of the object are data rather than field names."""
    return bool(schema.get("additionalProperties")) and not schema.get("properties")


def keeps_unknown(schema: Schema | None) -> bool:
    return schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True


def is_resource(schema: Schema | None) -> bool:
    return schema is not None and schema.get("x-kubernetes-embedded-resource") is True


def is_nullable(schema: Schema) -> bool:
    return schema.get("nullable") is True


class SchemaKey:
    """A schema as the key of a cache: by identity, since its content cannot be hashed."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaKey) and other.schema is self.schema
