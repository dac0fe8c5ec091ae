"""Plugin types by their names in configurations, and their instances.

A type has a name, the struct of its parameters and a factory. Both schedulers list theirs as `PluginType` values and
keep them in a `Registry`; packages add their own by entry points (`entry_points`). Everything that can be wrong with a
plugin is found at start-up, when `build_plugins` makes the instances.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, cast

import msgspec

from modelplane.api.errors import InputError
from modelplane.framework.faults import ProfileError

P = TypeVar("P", bound=msgspec.Struct)


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The base of parameter structs: camel case names, and unknown fields are errors."""


class NoParameters(Parameters, frozen=True):
    """For plugins that take none."""


class Handle(Protocol):
    """Access to other plugins, for a factory."""

    def plugin(self, name: str, /) -> object:
        """Another instance by its name, made first if need be; InputError if there is none, or if they form a cycle."""


class DeclaredPlugin(msgspec.Struct, frozen=True):
    """A plugin that takes no part in decisions; the component that it configures reads its parameters."""

    name: str
    type: str
    parameters: msgspec.Struct


class PluginType(msgspec.Struct, frozen=True):
    name: str
    parameters: type[msgspec.Struct]
    make: Callable[[str, msgspec.Struct, Handle], object]
    consumes: tuple[str, ...] = ()
    """Data of the cycle that it reads; a producer of each is added where none is configured."""
    produces: str = ""
    """Data of the cycle that it produces."""
    replaced_by: str = ""
    """The replacement of a deprecated type."""
    parts: frozenset[str] = frozenset()
    """The references of other sections that may name it: `parser`, `source`, `extractor`, `detector`, …"""

    def serving_as(self, *parts: str) -> "PluginType":
        return msgspec.structs.replace(self, parts=self.parts.union(parts))


def plugin_type(
    name: str,
    make: Callable[[str, P], object],
    parameters: type[P],
    *,
    consumes: tuple[str, ...] = (),
    produces: str = "",
    replaced_by: str = "",
) -> PluginType:
    """A type whose factory needs nothing but the instance's name and its parameters."""

    def made(instance: str, given: msgspec.Struct, _handle: Handle) -> object:
        return make(instance, cast("P", given))

    return PluginType(name, parameters, made, consumes, produces, replaced_by)


def linked_type(
    name: str,
    make: Callable[[str, P, Handle], object],
    parameters: type[P],
    *,
    consumes: tuple[str, ...] = (),
    replaced_by: str = "",
) -> PluginType:
    """A type whose instances refer to other instances."""

    def made(instance: str, given: msgspec.Struct, handle: Handle) -> object:
        return make(instance, cast("P", given), handle)

    return PluginType(name, parameters, made, consumes, "", replaced_by)


def declared_type(
    name: str, part: str, parameters: type[msgspec.Struct] = NoParameters, *, replaced_by: str = ""
) -> PluginType:
    """A type that is only declared: its parameters are validated, and `part` names the component that reads them."""

    def made(instance: str, given: msgspec.Struct, _handle: Handle) -> object:
        return DeclaredPlugin(instance, name, given)

    return PluginType(name, parameters, made, replaced_by=replaced_by, parts=frozenset((part,)))


class Registry(Mapping[str, PluginType]):
    """Types by name. A name is taken once."""

    __slots__ = ("_types",)

    def __init__(self, types: Iterable[PluginType]) -> None:
        self._types: dict[str, PluginType] = {}
        for each in types:
            if each.name in self._types:
                raise ProfileError(f"plugin type {each.name} is registered twice")
            self._types[each.name] = each

    def __getitem__(self, name: str) -> PluginType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def producer_of(self, data: str) -> str:
        """The first type that produces the data; empty where none does."""
        return next((each.name for each in self._types.values() if each.produces == data), "")

    def extended(self, types: Iterable[PluginType]) -> "Registry":
        return Registry([*self._types.values(), *types])


class PluginEntry(msgspec.Struct, frozen=True):
    """One plugin of a configuration, its parameters decoded."""

    name: str
    type: str
    parameters: msgspec.Struct
    at: int = -1
    """Its index in the list of plugins; -1: added by default."""


class BuiltPlugins(msgspec.Struct, frozen=True):
    instances: Mapping[str, object]
    referred: frozenset[str]
    """Names of instances that others refer to."""


def build_plugins(
    entries: Sequence[PluginEntry],
    registry: Registry,
    on_error: Callable[[PluginEntry, str], None],
    existing: Mapping[str, object] | None = None,
) -> BuiltPlugins:
    """All instances in the order of the entries. `on_error` is called for each that cannot be built."""
    builder = _Builder(entries, registry, existing or {})
    for entry in entries:
        try:
            builder.plugin(entry.name)
        except (InputError, ValueError) as error:
            on_error(entry, str(error))
    made = builder.made
    return BuiltPlugins(
        {entry.name: made[entry.name] for entry in entries if entry.name in made}, frozenset(builder.referred)
    )


class _Builder:
    """Makes each instance once, those it refers to before it."""

    def __init__(self, entries: Sequence[PluginEntry], registry: Registry, existing: Mapping[str, object]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._registry = registry
        self._in_progress: list[str] = []
        self.made = dict(existing)
        self.referred: set[str] = set()

    def plugin(self, name: str, /) -> object:
        if self._in_progress:
            self.referred.add(name)
        if name in self.made:
            return self.made[name]
        if name in self._in_progress:
            raise InputError(f"plugins refer to each other in a cycle: {' -> '.join((*self._in_progress, name))}")
        entry = self._entries.get(name)
        if entry is None:
            raise InputError(f"refers to plugin {name}, which is not listed")
        self._in_progress.append(name)
        try:
            self.made[name] = self._registry[entry.type].make(name, entry.parameters, self)
        finally:
            self._in_progress.pop()
        return self.made[name]
