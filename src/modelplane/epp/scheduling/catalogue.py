"""Plugin types by the names that configuration uses, and how instances of them are made.

Each plugin module lists its types in `TYPES`; `builtin` gathers them. A type has the struct of its parameters, decoded
strictly, and a maker. What is not part of a decision (parsers, data sources, flow control policies, …) is only
declared: its parameters are checked here and its owner reads them from the configuration.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar, cast

import msgspec

from modelplane.api.errors import InputError

P = TypeVar("P", bound=msgspec.Struct)

CAMEL = "camel"


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=CAMEL, kw_only=True):
    """What all structs of parameters build on: names as the ecosystem spells them, and nothing unknown."""


class EmptyParameters(Parameters, frozen=True):
    pass


class Making(Protocol):
    """What a maker may ask for beside its parameters."""

    def find(self, name: str, /) -> object:
        """Another instance by its name, made first if need be; InputError if there is none, or if they go in a ring."""


class Declared(msgspec.Struct, frozen=True):
    """A plugin that takes no part in decisions; whoever does what it describes reads its parameters."""

    name: str
    type: str
    parameters: msgspec.Struct


class PluginType(msgspec.Struct, frozen=True):
    name: str
    parameters: type[msgspec.Struct]
    make: Callable[[str, msgspec.Struct, Making], object]
    reads: tuple[str, ...] = ()
    """Data of the cycle that it reads; a producer of each is added where none is configured."""
    gives: str = ""
    """Data of the cycle that it produces."""
    instead: str = ""
    """What replaces a deprecated type."""
    parts: frozenset[str] = frozenset()
    """What sections other than profiles may refer to it as: `parser`, `source`, `extractor`, `detector`, …"""

    def serving_as(self, *parts: str) -> "PluginType":
        return msgspec.structs.replace(self, parts=self.parts.union(parts))


def plugin_type(
    name: str,
    make: Callable[[str, P], object],
    parameters: type[P],
    *,
    reads: tuple[str, ...] = (),
    gives: str = "",
    instead: str = "",
) -> PluginType:
    """A type whose maker needs nothing but its parameters."""

    def made(instance: str, given: msgspec.Struct, _making: Making) -> object:
        return make(instance, cast("P", given))

    return PluginType(name, parameters, made, reads, gives, instead)


def linked_type(
    name: str,
    make: Callable[[str, P, Making], object],
    parameters: type[P],
    *,
    reads: tuple[str, ...] = (),
    instead: str = "",
) -> PluginType:
    """A type whose instances refer to other instances."""

    def made(instance: str, given: msgspec.Struct, making: Making) -> object:
        return make(instance, cast("P", given), making)

    return PluginType(name, parameters, made, reads, "", instead)


def declared_type(
    name: str, part: str, parameters: type[msgspec.Struct] = EmptyParameters, *, instead: str = ""
) -> PluginType:
    def made(instance: str, given: msgspec.Struct, _making: Making) -> object:
        return Declared(instance, name, given)

    return PluginType(name, parameters, made, instead=instead, parts=frozenset((part,)))


class Catalogue(Mapping[str, PluginType]):
    """Types by name. A name is taken once."""

    __slots__ = ("_types",)

    def __init__(self, types: Iterable[PluginType]) -> None:
        self._types: dict[str, PluginType] = {}
        for each in types:
            if each.name in self._types:
                raise InputError(f"plugin type {each.name} is registered twice")
            self._types[each.name] = each

    def __getitem__(self, name: str) -> PluginType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def producer_of(self, data: str) -> str:
        """The first type that produces the data; empty where none does."""
        return next((each.name for each in self._types.values() if each.gives == data), "")

    def extended(self, types: Iterable[PluginType]) -> "Catalogue":
        return Catalogue([*self._types.values(), *types])
