"""What a plugin of placement can be, beyond the framework's filter, scorer and picker.

A filter declares its stage: it is called for clusters of one profile, for an engine on pools of one shape, or for a
whole option. It filters places for new replicas; replicas that are placed are judged by `review` alone. Decisions are
made once for all places that are alike, so a plugin reads of a cluster only what sets those places apart: its profile,
and the labels that it names in `reads`. The sample of a view stands for every cluster that agrees on those.

A plugin may declare more, to be called less often:

applies    whether it has anything to do in a cycle; without it, it always has
reads      the labels of clusters that its answer depends on; without it, none
steady     True where a reservation on one cluster changes no answer about another, and raises no score of its own
evenly     True for a scorer that stands for an even spread: where neither the profile nor the deployment states weights
           or preferences, clusters with fewer replicas of the deployment come first, and scores decide among equals

One that does not declare `steady` is called again after every reservation, which is always right and costs more.
"""

from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from typing import Protocol, cast, runtime_checkable

import msgspec

from modelplane.framework import Filter, Picker, Profile, Scorer, Weighted
from modelplane.placement.cluster_info import ClusterProfile
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.index import Reading
from modelplane.placement.offers import ClusterView, PlacementOption, PoolView
from modelplane.placement.request import PlacementRequest, ScoreWeights


class FilterStage(StrEnum):
    """What a filter is called for.

    CLUSTER   clusters of one profile: its candidate is a ClusterView
    POOL      an engine on pools of one shape: a PoolView
    OFFER     places for a whole replica: a PlacementOption
    """

    CLUSTER = "Cluster"
    POOL = "Pool"
    OFFER = "Offer"


@runtime_checkable
class LabelReader(Protocol):
    def reads(self, state: SchedulingCycle, /) -> Iterable[str]:
        """Keys of the labels that its answers depend on."""


class PlacementProfile(msgspec.Struct, frozen=True, eq=False):
    """The plugins that place replicas, by the stage they are called at. See `profile` for how one is built."""

    name: str
    picker: Picker[SchedulingCycle, PlacementOption]
    cluster_filters: tuple[Filter[SchedulingCycle, ClusterView], ...] = ()
    pool_filters: tuple[Filter[SchedulingCycle, PoolView], ...] = ()
    offer_filters: tuple[Filter[SchedulingCycle, PlacementOption], ...] = ()
    scorers: tuple[Weighted[SchedulingCycle, PlacementOption], ...] = ()
    readers: tuple[LabelReader, ...] = ()

    def reading(self, state: SchedulingCycle) -> Reading:
        """What the plugins read of clusters beside their profiles."""
        keys = {key for reader in self.readers for key in reader.reads(state)}
        caches = (state.cache(wanted) for wanted in state.request.caches)
        facts = tuple(fact for cache in caches if cache is not None for fact in cache.facts)
        return Reading(tuple(sorted(keys)), facts)


class ActivePlugins(msgspec.Struct, frozen=True, eq=False):
    """The plugins that apply in one cycle."""

    profile: Profile[SchedulingCycle, PlacementOption]
    """Scorers with their weights, and the filters whose answer for an option holds for the whole cycle."""
    rechecked: tuple[Filter[SchedulingCycle, PlacementOption], ...]
    """Filters that are called again after each reservation."""
    steady: bool
    """Whether no scorer has to be called again for offers that did not change."""
    evenly: bool
    """Whether the cluster with the fewest replicas of the deployment comes first, whatever the scores."""


def active_plugins(
    profile: PlacementProfile, state: SchedulingCycle, profiles: Collection[ClusterProfile]
) -> ActivePlugins:
    filters = [plugin for plugin in profile.offer_filters if applies(plugin, state, profiles)]
    scorers: list[Weighted[SchedulingCycle, PlacementOption]] = []
    for known in profile.scorers:
        given = getattr(state.request.weights, known.scorer.name, None)
        weight = known.weight if given is None else given
        if weight > 0 and applies(known.scorer, state, profiles):
            scorers.append(known if weight == known.weight else Weighted(known.scorer, weight))
    return ActivePlugins(
        Profile(profile.name, profile.picker, tuple(found for found in filters if is_steady(found)), tuple(scorers)),
        tuple(found for found in filters if not is_steady(found)),
        all(is_steady(found.scorer) for found in scorers),
        _spreads_evenly(profile, state.request, scorers),
    )


def _spreads_evenly(
    profile: PlacementProfile,
    request: PlacementRequest,
    scorers: Collection[Weighted[SchedulingCycle, PlacementOption]],
) -> bool:
    """The rule, unless the profile or the deployment says what counts more than an even spread."""
    weighted = any(found.weight != 1.0 for found in profile.scorers) or request.weights != ScoreWeights()
    preferring = request.preferred or any(not rule.hard for rule in request.spread)
    return not weighted and not preferring and any(getattr(found.scorer, "evenly", False) for found in scorers)


def is_steady(plugin: Filter[SchedulingCycle, PlacementOption] | Scorer[SchedulingCycle, PlacementOption]) -> bool:
    return getattr(plugin, "steady", False) is True


def applies(plugin: object, state: SchedulingCycle, profiles: Collection[ClusterProfile]) -> bool:
    """Whether a plugin has anything to do on clusters of these profiles."""
    declared = cast(
        "Callable[[SchedulingCycle, Collection[ClusterProfile]], bool] | None", getattr(plugin, "applies", None)
    )
    return declared is None or declared(state, profiles)
