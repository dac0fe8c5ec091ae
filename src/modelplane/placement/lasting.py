"""Refusals that last: what would refuse a place even if it were open, complete and empty.

A place has one answer, the first refusal that is found. One that may pass must not hide one that lasts: a deployment
that no pool can hold would seem to wait for the end of a drain, for a full pool or for a cache. So a refusal that may
pass is the answer only where nothing lasts.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeVar

from modelplane.framework import Filter, Refusal, RefusalCode, admit
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import fit_engine, never_fits
from modelplane.placement.offers import ClusterView, OfferedAssignment, PlacementOption, first_fit
from modelplane.placement.plugins import applies
from modelplane.placement.pool_usage import EMPTY
from modelplane.placement.request import EngineRequest
from modelplane.placement.reservation import Assigned, EngineAssignments, Unassignable, assign_engines

_CACHED: Final = 16_384

S = TypeVar("S")
C = TypeVar("C")


def lasts(refusal: Refusal) -> bool:
    return refusal.code is RefusalCode.UNRESOLVABLE


def lasting_refusal(filters: Sequence[Filter[S, C]], state: S, candidate: C) -> Refusal | None:
    """The first refusal that lasts; None where there is none."""
    refusals = (admit((plugin,), state, candidate) for plugin in filters)
    return next((refusal for refusal in refusals if refusal is not None and lasts(refusal)), None)


def lasting_first(filters: Sequence[Filter[S, C]], state: S, candidate: C) -> Refusal | None:
    """The first refusal that lasts, else the first; None where every filter admits."""
    first = admit(filters, state, candidate)
    if first is None or lasts(first):
        return first
    return lasting_refusal(filters, state, candidate) or first


@lru_cache(maxsize=_CACHED)
def assigned_when_empty(engines: tuple[EngineRequest, ...], kinds: tuple[PoolShape, ...]) -> Assigned:
    """Where the engines of a replica would go on pools that are complete and empty."""
    return assign_engines(engines, [kind.whole for kind in kinds], (EMPTY,) * len(kinds), fit_engine)


def never_assigned(engines: tuple[EngineRequest, ...], kinds: tuple[PoolShape, ...]) -> Unassignable | None:
    """Why pools would not take a replica even if they were complete and empty; None where they might."""
    found = assigned_when_empty(engines, kinds)
    if not isinstance(found, Unassignable) or not lasts(found.refusal):
        return None
    refusals = ((engine.name, at, never_fits(engine, kind)) for engine in engines for at, kind in enumerate(kinds))
    return Unassignable(found.refusal, tuple((name, at, why) for name, at, why in refusals if why is not None))


_OfferFilters = tuple[Filter[SchedulingCycle, PlacementOption], ...]


class LastingRefusals:
    """What refuses places for good, in one cycle, where they were refused for a while.

    Nothing is said of a cluster whose hardware is not known.
    """

    def __init__(self, state: SchedulingCycle, offer_filters: _OfferFilters) -> None:
        self._state = state
        self._offer_filters = offer_filters
        self._active: dict[ClusterProfile, _OfferFilters] = {}
        """Those that have anything to do on clusters of a profile."""

    def of_pool(self, view: ClusterView, kind: PoolShape, refusal: Refusal) -> Refusal | None:
        """For the one engine of a replica on pools of a shape; None where the refusal is the answer."""
        if lasts(refusal) or not view.profile.hardware_known:
            return None
        engine = self._state.request.engines[0]
        never = never_fits(engine, kind)
        fit = first_fit(engine, kind.whole, EMPTY) if never is None and self._filters(view) else None
        return never if fit is None else self._of_option(view, (OfferedAssignment(kind, 0, fit),))

    def of_cluster(self, view: ClusterView, kinds: tuple[PoolShape, ...], refusal: Refusal) -> Unassignable | None:
        """For all engines of a replica on the pools of a cluster; None where the refusal is the answer."""
        if lasts(refusal) or not view.profile.hardware_known:
            return None
        engines = self._state.request.engines
        never = never_assigned(engines, kinds)
        if never is not None or not self._filters(view):
            return never
        assigned = assigned_when_empty(engines, kinds)
        found = [] if isinstance(assigned, Unassignable) else [self._of_option(view, each) for each in assigned]
        lasting = [each for each in found if each is not None]
        return Unassignable(lasting[0]) if lasting and len(lasting) == len(found) else None

    def _filters(self, view: ClusterView) -> _OfferFilters:
        known = self._active.get(view.profile)
        if known is None:
            active = (plugin for plugin in self._offer_filters if applies(plugin, self._state, (view.profile,)))
            known = self._active[view.profile] = tuple(active)
        return known

    def _of_option(self, view: ClusterView, assignments: EngineAssignments) -> Refusal | None:
        """What refuses a replica that the hardware could take, such as a quota below what it needs."""
        option = PlacementOption(view, ((view.sample.name, 0),), assignments)
        return lasting_refusal(self._filters(view), self._state, option)
