"""Which plugins place replicas: the types that are known, the profile that is used without a word, and any other.

A profile is a list of plugins: filters in the order they are asked, scorers with their weights, and one picker. What a
deployment says about weights comes before what the profile says. `Devices` and `Capacity` are the ledger's own
filters: without them things would be promised twice, so a profile that leaves them out is refused.

Others bring their own: they register a type under a name, with a factory and the struct of its parameters, and profiles
name it like any other. Everything that can be wrong with a profile is found when it is built.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

import msgspec

from modelplane.api.objects import API_VERSION
from modelplane.framework import (
    Filter,
    NoParameters,
    Picker,
    PluginSpec,
    Profile,
    ProfileError,
    ProfileSpec,
    Registry,
    Weighted,
)
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import (
    AffinityFilter,
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

Candidate = ClusterView | PoolView | PlacementOption
PlacementRegistry = Registry[SchedulingCycle, Candidate]
KIND = "PlacementProfile"
_OWN: tuple[Callable[[], object], ...] = (
    ClusterSelectorFilter,
    AffinityFilter,
    CachesFilter,
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
_LEDGER: Mapping[str, type[object]] = MappingProxyType(
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


def own_types() -> PlacementRegistry:
    """A registry with every plugin type that comes with placement, to which others may be added."""
    registry: PlacementRegistry = Registry()
    for make in _OWN:
        registry.register(_type_name(make()), _factory(make), NoParameters)
    return registry


def default_spec() -> PlacementSpec:
    return PlacementSpec(tuple(PluginUse(_type_name(make())) for make in _OWN))


def read_profile(document: Mapping[str, object], registry: PlacementRegistry | None = None) -> PlacementProfile:
    """The profile that a document spells out."""
    try:
        spec = msgspec.convert(document, PlacementSpec)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{KIND}: {error}") from error
    if spec.kind != KIND:
        raise ProfileError(f"this is a {spec.kind}, not a {KIND}")
    return build_profile(spec, registry)


def build_profile(spec: PlacementSpec, registry: PlacementRegistry | None = None) -> PlacementProfile:
    instances = [PluginSpec(use.type, use.name, use.parameters) for use in spec.plugins]
    names = tuple((use.name or use.type, use.weight) for use in spec.plugins)
    built = (registry or own_types()).build(instances, [ProfileSpec(spec.name, names)])[spec.name]
    return _by_stage(built)


def _by_stage(built: Profile[SchedulingCycle, Candidate]) -> PlacementProfile:
    there = {type(plugin) for plugin in built.filters}
    missing = [name for name, kind in _LEDGER.items() if kind not in there]
    if missing:
        raise ProfileError(f"profile {built.name}: {' and '.join(missing)} cannot be left out")
    chosen = [plugin for plugin in built.filters if type(plugin) not in _LEDGER.values()]
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
        raise ProfileError(f"profile {profile}: filter {plugin.name} does not say its stage: {stages}")
    return stage


def _type_name(plugin: object) -> str:
    return str(getattr(plugin, "name", ""))


def _factory(make: Callable[[], object]) -> Callable[[str, NoParameters], object]:
    return lambda _name, _parameters: make()


DEFAULT_PROFILE = build_profile(default_spec())
"""Checked when the module is loaded."""
