"""The kinds as the API server knows them: names, scope, schema, printer columns, subresources."""

import pkgutil
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType

import msgspec


class Scope(StrEnum):
    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class Names(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kind: str
    list_kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class Column(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A column of `kubectl get`. Priority above 0 shows it with -o wide only."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0


class Scale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    version: str
    scope: Scope
    names: Names
    columns: tuple[Column, ...]
    scale: Scale | None
    schema: Mapping[str, object]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def kind(self) -> str:
        return self.names.kind

    @property
    def plural(self) -> str:
        return self.names.plural

    @property
    def namespaced(self) -> bool:
        return self.scope is Scope.NAMESPACED


@cache
def definitions() -> Mapping[tuple[str, str], Definition]:
    """Every kind by (apiVersion, kind), in the order of their names."""
    data = pkgutil.get_data("modelplane.api", "_definitions.json") or b"[]"
    found = msgspec.json.decode(data, type=tuple[Definition, ...])
    return MappingProxyType({(each.api_version, each.kind): each for each in sorted(found, key=lambda d: d.kind)})


def custom_resource_definition(definition: Definition) -> dict[str, object]:
    """The plain CustomResourceDefinition of a kind, for an API server without Crossplane."""
    subresources: dict[str, object] = {"status": {}}
    if definition.scale is not None:
        subresources["scale"] = msgspec.to_builtins(definition.scale)
    version = {
        "name": definition.version,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "additionalPrinterColumns": [msgspec.to_builtins(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": definition.schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{definition.group}"},
        "spec": {
            "group": definition.group,
            "scope": definition.scope.value,
            "names": msgspec.json.decode(msgspec.json.encode(definition.names)),
            "versions": [version],
        },
    }
