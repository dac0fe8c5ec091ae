"""The kinds that the API serves, and how paths name them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from modelplane.api.definitions import Definition, Scale, definitions
from modelplane.apiserver import event_views
from modelplane.apiserver.core_kinds import READ_ONLY, WRITABLE
from modelplane.apiserver.metadata_schema import OBJECT_META, TYPE_META
from modelplane.k8s.admission.schemas import Schema, properties_of

_READ = ("get", "list", "watch")
_CUSTOM = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_CORE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_NAMESPACE = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A kind as it is served. `custom` ones are ours, and treated as custom resources are."""

    definition: Definition
    verbs: tuple[str, ...]
    custom: bool
    schema: Schema
    """The schema of the whole object, metadata included."""

    @property
    def group(self) -> str:
        return self.definition.group

    @property
    def version(self) -> str:
        return self.definition.version

    @property
    def api_version(self) -> str:
        return self.definition.api_version

    @property
    def kind(self) -> str:
        return self.definition.kind

    @property
    def plural(self) -> str:
        return self.definition.plural

    @property
    def namespaced(self) -> bool:
        return self.definition.namespaced

    @property
    def qualified(self) -> str:
        """The plural with its group, as messages name resources."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return self.custom or self.kind == "Namespace"

    @property
    def is_view(self) -> bool:
        """Whether it is a view of another kind's objects."""
        return self.group == event_views.GROUP

    @property
    def home(self) -> tuple[str, str]:
        """The group and kind under which its objects are stored."""
        return ("", "Event") if self.is_view else (self.group, self.kind)

    @property
    def scale(self) -> Scale | None:
        return self.definition.scale

    @property
    def subresources(self) -> tuple[str, ...]:
        return (*(("status",) if self.has_status else ()), *(("scale",) if self.scale else ()))


def _resource(definition: Definition, verbs: tuple[str, ...], *, custom: bool) -> Resource:
    known = {**TYPE_META, **properties_of(definition.schema), "metadata": OBJECT_META}
    return Resource(definition, verbs, custom, {**definition.schema, "properties": known})


def _all() -> Iterable[Resource]:
    for own in WRITABLE:
        yield _resource(own, _NAMESPACE if own.kind == "Namespace" else _CORE, custom=False)
    for own in READ_ONLY:
        yield _resource(own, _READ, custom=False)
    for definition in definitions().values():
        yield _resource(definition, _CUSTOM, custom=True)


@cache
def resources() -> Mapping[tuple[str, str, str], Resource]:
    """By group, version and plural."""
    return MappingProxyType({(each.group, each.version, each.plural): each for each in _all()})


@cache
def resource_of(group: str, kind: str) -> Resource | None:
    return next((each for each in resources().values() if (each.group, each.kind) == (group, kind)), None)


@cache
def namespaces() -> Resource:
    return resources()["", "v1", "namespaces"]
