"""What a plugin of placement can be, beyond the framework's filter, scorer and picker.

A filter says at which stage it is asked: of a make of cluster, of an engine on a kind of pool, or of a whole offer. It
keeps newcomers away; replicas that have a place are judged by `review` alone. Decisions are made once for all places
that are alike, so a plugin reads of a cluster only what sets those places apart: its traits, and the labels that it
names in `reads`. The sample of a view stands for every cluster that agrees on those.

A plugin may say more of itself, to be asked less often:

concerns   whether it has anything to say in a pass; without it, it always has
reads      the labels of clusters that its answer depends on; without it, none
steady     True where seating a replica on one cluster changes no answer about another, and raises no score of its own

One that does not say `steady` is asked again after every replica that is seated, which is always right and costs more.
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


class FilterStage(StrEnum):
    """What a filter is asked about.

    CLUSTER   a make of cluster: its candidate is a ClusterView
    POOL      an engine on a kind of pool: a PoolView
    OFFER     seats for a whole replica: an Offer
    """

    CLUSTER = "Cluster"
    POOL = "Pool"
    OFFER = "Offer"


@runtime_checkable
class Concerned(Protocol):
    def concerns(self, state: SchedulingCycle, traits: Collection[ClusterProfile], /) -> bool:
        """Whether it has anything to say in a pass over clusters with these traits."""


@runtime_checkable
class LabelReader(Protocol):
    def reads(self, state: SchedulingCycle, /) -> Iterable[str]:
        """Keys of the labels that its answers depend on."""


class PlacementProfile(msgspec.Struct, frozen=True, eq=False):
    """The plugins that place replicas, by the stage they are asked at. See `profile` for how one is built."""

    name: str
    picker: Picker[SchedulingCycle, PlacementOption]
    cluster_filters: tuple[Filter[SchedulingCycle, ClusterView], ...] = ()
    pool_filters: tuple[Filter[SchedulingCycle, PoolView], ...] = ()
    offer_filters: tuple[Filter[SchedulingCycle, PlacementOption], ...] = ()
    scorers: tuple[Weighted[SchedulingCycle, PlacementOption], ...] = ()
    readers: tuple[LabelReader, ...] = ()

    def reading(self, state: SchedulingCycle) -> Reading:
        """What the plugins read of clusters beside their traits."""
        keys = {key for reader in self.readers for key in reader.reads(state)}
        caches = (state.cache(wanted) for wanted in state.ask.caches)
        return Reading(tuple(sorted(keys)), tuple(cache.staged for cache in caches if cache is not None))


class Lineup(msgspec.Struct, frozen=True, eq=False):
    """The plugins that have something to say in one pass."""

    profile: Profile[SchedulingCycle, PlacementOption]
    """Scorers with their weights, and the filters whose answer for an offer holds for the whole pass."""
    shifting: tuple[Filter[SchedulingCycle, PlacementOption], ...]
    """Filters that are asked again after each replica that is seated."""
    steady: bool
    """Whether no scorer has to be asked again about offers that did not change."""


def line_up(profile: PlacementProfile, state: SchedulingCycle, traits: Collection[ClusterProfile]) -> Lineup:
    filters = [plugin for plugin in profile.offer_filters if _concerned(plugin, state, traits)]
    scorers: list[Weighted[SchedulingCycle, PlacementOption]] = []
    for known in profile.scorers:
        given = getattr(state.ask.weights, known.scorer.name, None)
        weight = known.weight if given is None else given
        if weight > 0 and _concerned(known.scorer, state, traits):
            scorers.append(known if weight == known.weight else Weighted(known.scorer, weight))
    return Lineup(
        Profile(profile.name, profile.picker, tuple(found for found in filters if is_steady(found)), tuple(scorers)),
        tuple(found for found in filters if not is_steady(found)),
        all(is_steady(found.scorer) for found in scorers),
    )


def is_steady(plugin: Filter[SchedulingCycle, PlacementOption] | Scorer[SchedulingCycle, PlacementOption]) -> bool:
    return getattr(plugin, "steady", False) is True


def _concerned(plugin: object, state: SchedulingCycle, traits: Collection[ClusterProfile]) -> bool:
    asked = cast(
        "Callable[[SchedulingCycle, Collection[ClusterProfile]], bool] | None", getattr(plugin, "concerns", None)
    )
    return asked is None or asked(state, traits)
