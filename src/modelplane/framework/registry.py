"""Plugins by type name, and profiles made of them; everything that can be wrong is found at start-up.

A plugin type is registered with a factory and the struct of its parameters. Configuration lists instances (a name, a
type, parameters) and profiles (names of instances, weights). Building checks that types and names exist, that
parameters fit their struct, that each instance has the method of at least one part, that a weight stands on scorers
only, and that each profile has exactly one picker.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar, cast

import msgspec

from modelplane.framework.faults import ProfileError
from modelplane.framework.plugins import Filter, Picker, Scorer, Weighted
from modelplane.framework.profile import Profile

S = TypeVar("S")
C = TypeVar("C")
P = TypeVar("P", bound=msgspec.Struct)


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For plugins that take none."""


class PluginSpec(msgspec.Struct, frozen=True):
    """An instance of a plugin type. The name is the type's unless there are several of it."""

    type: str
    name: str = ""
    parameters: Mapping[str, object] = msgspec.field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.name or self.type


class ProfileSpec(msgspec.Struct, frozen=True):
    name: str
    plugins: tuple[tuple[str, float | None], ...]
    """Names of instances, each with its weight where it is a scorer; None is a weight of 1."""


class _Type(msgspec.Struct, frozen=True):
    factory: Callable[[str, msgspec.Struct], object]
    parameters: type[msgspec.Struct]


class Registry(Generic[S, C]):
    """The plugin types that a program knows."""

    def __init__(self) -> None:
        self._types: dict[str, _Type] = {}

    def register(self, type_name: str, factory: Callable[[str, P], object], parameters: type[P]) -> None:
        """`factory` gets the instance's name and its parameters. A type name is taken once."""
        if type_name in self._types:
            raise ProfileError(f"plugin type {type_name} is registered twice")
        # Each factory takes its own parameters; the entry pairs them, so it never gets another's.
        self._types[type_name] = _Type(cast("Callable[[str, msgspec.Struct], object]", factory), parameters)

    @property
    def type_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._types))

    def build(self, plugins: Iterable[PluginSpec], profiles: Iterable[ProfileSpec]) -> dict[str, Profile[S, C]]:
        instances: dict[str, object] = {}
        for spec in plugins:
            if spec.label in instances:
                raise ProfileError(f"plugin {spec.label} is listed twice")
            instances[spec.label] = self._instance(spec)
        built: dict[str, Profile[S, C]] = {}
        for wanted in profiles:
            if wanted.name in built:
                raise ProfileError(f"profile {wanted.name} is listed twice")
            # What a plugin takes is not known at run time; whoever registers types for one registry sees to it.
            built[wanted.name] = cast("Profile[S, C]", _profile(wanted, instances))
        return built

    def _instance(self, spec: PluginSpec) -> object:
        known = self._types.get(spec.type)
        if known is None:
            raise ProfileError(f"plugin {spec.label}: no type {spec.type}; the types are {', '.join(self.type_names)}")
        try:
            parameters = msgspec.convert(spec.parameters, known.parameters)
        except msgspec.ValidationError as error:
            raise ProfileError(f"plugin {spec.label}: parameters: {error}") from error
        instance = known.factory(spec.label, parameters)
        if not isinstance(instance, Filter | Scorer | Picker):
            raise ProfileError(f"plugin {spec.label}: type {spec.type} is neither a filter, a scorer nor a picker")
        return instance


def _profile(wanted: ProfileSpec, instances: Mapping[str, object]) -> Profile[object, object]:
    filters: list[Filter[object, object]] = []
    scorers: list[Weighted[object, object]] = []
    pickers: list[Picker[object, object]] = []
    for name, weight in wanted.plugins:
        if name not in instances:
            raise ProfileError(f"profile {wanted.name}: no plugin is named {name}")
        plugin = instances[name]
        if weight is not None and not isinstance(plugin, Scorer):
            raise ProfileError(f"profile {wanted.name}: {name} has a weight and is not a scorer")
        if isinstance(plugin, Filter):
            filters.append(plugin)
        if isinstance(plugin, Scorer):
            scorers.append(Weighted(plugin, 1.0 if weight is None else weight))
        if isinstance(plugin, Picker):
            pickers.append(plugin)
    return Profile(wanted.name, _only(wanted.name, pickers), tuple(filters), tuple(scorers))


def _only(profile: str, pickers: Sequence[Picker[object, object]]) -> Picker[object, object]:
    if len(pickers) != 1:
        names = ", ".join(picker.name for picker in pickers) or "none"
        raise ProfileError(f"profile {profile}: exactly one picker is needed, there are {len(pickers)} ({names})")
    return pickers[0]
