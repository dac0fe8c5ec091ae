"""Which plugins place replicas: the types that are known, the default profile, and any other.

A profile is a list of plugins: filters in the order they are called, scorers with their weights, and one picker. What a
deployment states about weights comes before the profile. `Devices` and `Capacity` do the
accounting: without them devices would be promised twice, so a profile that leaves them out is refused.

Others bring their own: they register a type under a name, with a factory and the struct of its parameters, and profiles
name it like any other. Everything that can be wrong with a profile is found when it is built.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Protocol, cast

import msgspec

from modelplane.api.objects import API_VERSION
from modelplane.framework import Filter, Picker, Profile, ProfileError, Weighted, make_profile
from modelplane.framework.registry import (
    NoParameters,
    PluginEntry,
    PluginType,
    Registry,
    build_plugins,
    plugin_type,
)
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import (
    AffinityFilter,
    BackendFilter,
    CachesFilter,
    CapacityFilter,
    ClusterReadyFilter,
    ClusterSelectorFilter,
    ClusterTaintsFilter,
    CordonedFilter,
    DevicesFilter,
    PoolTaintsFilter,
    PrioritiesFilter,
    QueueFilter,
    QuotaFilter,
    SpreadFilter,
)
from modelplane.placement.offers import ClusterView, PlacementOption, PoolView
from modelplane.placement.plugins import FilterStage, LabelReader, PlacementProfile
from modelplane.placement.scorers import (
    BestFirstPicker,
    HeadroomScorer,
    PreferredScorer,
    PriceScorer,
    SpreadScorer,
    StagedScorer,
    StickinessScorer,
    TopologySpreadScorer,
)
from modelplane.placement.tiers import TiersFilter

Candidate = ClusterView | PoolView | PlacementOption
KIND = "PlacementProfile"


class _Builtin(Protocol):
    @property
    def name(self) -> str: ...


_BUILTIN: tuple[type[_Builtin], ...] = (
    ClusterSelectorFilter,
    AffinityFilter,
    TiersFilter,
    CachesFilter,
    BackendFilter,
    PrioritiesFilter,
    ClusterTaintsFilter,
    CordonedFilter,
    ClusterReadyFilter,
    PoolTaintsFilter,
    DevicesFilter,
    CapacityFilter,
    QuotaFilter,
    QueueFilter,
    SpreadFilter,
    SpreadScorer,
    StagedScorer,
    HeadroomScorer,
    PriceScorer,
    StickinessScorer,
    PreferredScorer,
    TopologySpreadScorer,
    BestFirstPicker,
)
"""In the order of the default profile, which is for people: what cannot be helped is refused before what may pass."""
_ACCOUNTING: Mapping[str, type[object]] = MappingProxyType(
    {DevicesFilter.name: DevicesFilter, CapacityFilter.name: CapacityFilter}
)


class PluginUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plugin of a profile. The name is the type's unless there are several of it."""

    type: str
    name: str = ""
    weight: float | None = None
    """Of a scorer; 1 where it is not given."""
    parameters: Mapping[str, object] = msgspec.field(default_factory=dict)


class PlacementSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A profile as it is written down."""

    plugins: tuple[PluginUse, ...]
    name: str = "place"
    api_version: str = API_VERSION
    kind: str = KIND


@cache
def builtin_types() -> Registry:
    """Every plugin type that comes with placement, by its name and by the name that its instances have."""
    types = [plugin_type(_type_name(make), _factory(make), NoParameters) for make in _BUILTIN]
    return Registry([*types, *(_older_name(make, found) for make, found in zip(_BUILTIN, types, strict=True))])


def default_spec() -> PlacementSpec:
    return PlacementSpec(tuple(PluginUse(_type_name(make)) for make in _BUILTIN))


def read_profile(document: Mapping[str, object], registry: Registry | None = None) -> PlacementProfile:
    """The profile that a document spells out."""
    try:
        spec = msgspec.convert(document, PlacementSpec)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{KIND}: {error}") from error
    if spec.kind != KIND:
        raise ProfileError(f"this is a {spec.kind}, not a {KIND}")
    return build_profile(spec, registry)


def build_profile(spec: PlacementSpec, registry: Registry | None = None) -> PlacementProfile:
    known = builtin_types() if registry is None else registry
    entries: dict[str, PluginEntry] = {}
    for use in spec.plugins:
        entry = _entry(use, known)
        if entry.name in entries:
            raise ProfileError(f"plugin {entry.name} is listed twice")
        entries[entry.name] = entry
    instances = build_plugins(tuple(entries.values()), known, _raise).instances
    weights = [use.weight for use in spec.plugins]
    return _by_stage(make_profile(spec.name, zip(instances.items(), weights, strict=True)))


def _entry(use: PluginUse, registry: Registry) -> PluginEntry:
    name = use.name or use.type
    if use.type not in registry:
        types = ", ".join(sorted(found for found, kind in registry.items() if not kind.replaced_by))
        raise ProfileError(f"plugin {name}: no type {use.type}; the types are {types}")
    try:
        return PluginEntry(name, use.type, msgspec.convert(use.parameters, registry[use.type].parameters))
    except msgspec.ValidationError as error:
        raise ProfileError(f"plugin {name}: parameters: {error}") from error


def _raise(entry: PluginEntry, sentence: str) -> None:
    raise ProfileError(f"plugin {entry.name}: {sentence}")


def _by_stage(built: Profile[SchedulingCycle, Candidate]) -> PlacementProfile:
    there = {type(plugin) for plugin in built.filters}
    missing = [name for name, kind in _ACCOUNTING.items() if kind not in there]
    if missing:
        raise ProfileError(f"profile {built.name}: {' and '.join(missing)} cannot be left out")
    chosen = [plugin for plugin in built.filters if type(plugin) not in _ACCOUNTING.values()]
    staged = [(_stage(built.name, plugin), plugin) for plugin in chosen]
    everyone = (*built.filters, *(weighted.scorer for weighted in built.scorers))
    # What a filter takes is not known at run time; its stage says which of the three kinds of candidate it gets.
    return PlacementProfile(
        built.name,
        cast("Picker[SchedulingCycle, PlacementOption]", built.picker),
        tuple(
            cast("Filter[SchedulingCycle, ClusterView]", plugin)
            for stage, plugin in staged
            if stage is FilterStage.CLUSTER
        ),
        tuple(
            cast("Filter[SchedulingCycle, PoolView]", plugin) for stage, plugin in staged if stage is FilterStage.POOL
        ),
        tuple(
            cast("Filter[SchedulingCycle, PlacementOption]", plugin)
            for stage, plugin in staged
            if stage is FilterStage.OFFER
        ),
        cast("tuple[Weighted[SchedulingCycle, PlacementOption], ...]", built.scorers),
        tuple(plugin for plugin in everyone if isinstance(plugin, LabelReader)),
    )


def _stage(profile: str, plugin: Filter[SchedulingCycle, Candidate]) -> FilterStage:
    stage = getattr(plugin, "stage", None)
    if not isinstance(stage, FilterStage):
        stages = ", ".join(found.value for found in FilterStage)
        raise ProfileError(f"profile {profile}: filter {plugin.name} does not declare its stage: {stages}")
    return stage


def _type_name(make: type[_Builtin]) -> str:
    """`ClusterReadyFilter` is `cluster-ready-filter`."""
    return "-".join(re.findall("[A-Z][a-z]*", make.__name__)).lower()


def _older_name(make: type[_Builtin], found: PluginType) -> PluginType:
    return msgspec.structs.replace(found, name=make().name, replaced_by=found.name)


def _factory(make: type[_Builtin]) -> Callable[[str, NoParameters], object]:
    return lambda _name, _parameters: make()


DEFAULT_PROFILE = build_profile(default_spec())
"""Checked when the module is loaded."""
