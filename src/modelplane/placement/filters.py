"""What keeps a replica away.

Clusters first, then engines on pools, then whole offers; see `profile` for the order within each.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from modelplane.api.labels import selects
from modelplane.api.models import LabelSelector
from modelplane.framework import Filter, Refusal, RefusalCode, admit
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.matching import Unmatched, engine_ways
from modelplane.placement.offers import ClusterView, Fit, PlacementOption, PoolView, first_fit
from modelplane.placement.plugins import FilterStage
from modelplane.placement.request import EngineRequest
from modelplane.placement.room import Use
from modelplane.placement.taints import keeping_away
from modelplane.placement.values import PlacementTaint
from modelplane.placement.wording import Mismatch, Shortfall

_CACHED: Final = 65_536


def label_keys(*selectors: LabelSelector | None) -> Iterator[str]:
    """The labels that selectors look at."""
    for selector in selectors:
        if selector is not None:
            yield from selector.match_labels
            yield from (found.key for found in selector.match_expressions)


class ClusterSelectorFilter:
    name: Final = "ClusterSelector"
    stage: Final = FilterStage.CLUSTER

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return label_keys(state.ask.cluster_selector)

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        if selects(state.ask.cluster_selector, view.sample.labels):
            return None
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, "its labels do not match the clusterSelector")


class AffinityFilter:
    name: Final = "Affinity"
    stage: Final = FilterStage.CLUSTER

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return label_keys(*state.ask.required)

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        required = state.ask.required
        if not required or any(selects(selector, view.sample.labels) for selector in required):
            return None
        return Refusal(
            self.name, RefusalCode.UNRESOLVABLE, "it matches none of the {} required selectors", (len(required),)
        )


class CachesFilter:
    name: Final = "Caches"
    stage: Final = FilterStage.CLUSTER

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        caches = (state.cache(wanted) for wanted in state.ask.caches)
        return label_keys(*(cache.selector for cache in caches if cache is not None))

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        for wanted in state.ask.caches:
            if not wanted.required:
                continue
            cache = state.cache(wanted)
            if cache is not None and cache.fault:
                return Refusal(
                    self.name, RefusalCode.UNSCHEDULABLE, "the cache {} cannot be read: {}", (wanted.name, cache.fault)
                )
            if cache is None:
                return Refusal(self.name, RefusalCode.UNRESOLVABLE, "the cache {} does not exist", (wanted.name,))
            if not cache.reaches(view.sample):
                return Refusal(
                    self.name,
                    RefusalCode.UNRESOLVABLE,
                    "the cache {} is not staged here and will not be",
                    (wanted.name,),
                )
        return None


class PrioritiesFilter:
    name: Final = "Priority"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        wanted, allowed = state.ask.priority, view.traits.priorities
        if wanted is None or not allowed or any(name == wanted for name, _ in allowed):
            return None
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, "priority {} is not one of the cluster's", (wanted,))


class ClusterTaintsFilter:
    name: Final = "ClusterTaints"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.traits.taints, state.ask.tolerations))


class CordonedFilter:
    name: Final = "Cordoned"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, _state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        return (
            Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster is cordoned") if view.traits.cordoned else None
        )


class ClusterReadyFilter:
    name: Final = "ClusterReady"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, _state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        if view.traits.fault:
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster cannot be read: {}", (view.traits.fault,))
        return None if view.traits.ready else Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster is not ready")


class PoolTaintsFilter:
    name: Final = "PoolTaints"
    stage: Final = FilterStage.POOL

    def refuse(self, state: SchedulingCycle, view: PoolView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.kind.taints, state.ask.tolerations))


class DevicesFilter:
    """Like `Capacity` it reads nothing but the engine and the pool, so its answer holds for all who ask the same."""

    name: Final = "Devices"
    stage: Final = FilterStage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        ways = engine_ways(view.engine, view.kind.hardware)
        if isinstance(ways, Unmatched):
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "{}", (Mismatch(ways, view.kind.hardware),))
        return None


class CapacityFilter:
    """Refuses what does not fit now; what would not fit the pool even if all of it were there and empty is excluded."""

    name: Final = "Capacity"
    stage: Final = FilterStage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        if first_fit(view.engine, view.kind, view.use) is not None:
            return None
        kind = view.kind
        whole = msgspec.structs.replace(kind, nodes=kind.nodes + kind.away) if kind.away else kind
        code = RefusalCode.UNSCHEDULABLE if first_fit(view.engine, whole, ()) is not None else RefusalCode.UNRESOLVABLE
        return Refusal(self.name, code, "{}", (Shortfall(view.engine, view.kind, view.use),))


class QuotaFilter:
    name: Final = "Quota"
    stage: Final = FilterStage.OFFER
    steady: Final = True

    def concerns(self, _state: SchedulingCycle, traits: Collection[ClusterProfile], /) -> bool:
        return any(found.quotas for found in traits)

    def refuse(self, state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        namespace = state.ask.deployment.namespace
        found = offer.view.traits.quota_left(namespace)
        if found is None or offer.devices <= found[0]:
            return None
        left, limit = found
        code = RefusalCode.UNRESOLVABLE if offer.devices > limit else RefusalCode.UNSCHEDULABLE
        text = "needs {} devices, {} of {} are left of the quota of namespace {}"
        return Refusal(self.name, code, text, (offer.devices, max(left, 0), limit, namespace))


class QueueFilter:
    name: Final = "Queue"
    stage: Final = FilterStage.OFFER
    steady: Final = True

    def concerns(self, _state: SchedulingCycle, traits: Collection[ClusterProfile], /) -> bool:
        return any(found.queue_left is not None for found in traits)

    def refuse(self, _state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        traits = offer.view.traits
        left, limit = traits.queue_left, traits.queue_limit
        if left is None or limit is None or offer.devices <= left:
            return None
        code = RefusalCode.UNRESOLVABLE if offer.devices > limit else RefusalCode.UNSCHEDULABLE
        text = "needs {} devices, the cluster's queue has {} of {} left"
        return Refusal(self.name, code, text, (offer.devices, max(left, 0), limit))


class SpreadFilter:
    name: Final = "Spread"
    stage: Final = FilterStage.OFFER

    def concerns(self, state: SchedulingCycle, _traits: Collection[ClusterProfile], /) -> bool:
        return any(domain.rule.hard for domain in state.domains)

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return (rule.key for rule in state.ask.spread)

    def refuse(self, state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        for domain in state.domains:
            if not domain.rule.hard:
                continue
            value = offer.view.sample.labels.get(domain.rule.key)
            if value is None:
                return Refusal(self.name, RefusalCode.UNRESOLVABLE, "it has no label {}", (domain.rule.key,))
            ahead = domain.ahead(value) + 1
            if ahead > domain.rule.max_skew:
                text = "{} {} would be {} replicas ahead of another, {} allowed"
                return Refusal(
                    self.name, RefusalCode.UNSCHEDULABLE, text, (domain.rule.key, value, ahead, domain.rule.max_skew)
                )
        return None


@lru_cache(maxsize=_CACHED)
def seat_engine(engine: EngineRequest, kind: PoolShape, use: Use) -> Fit | Refusal:
    """How an engine would sit on a pool, or why it cannot."""
    fit = first_fit(engine, kind, use)
    if fit is not None:
        return fit
    refusal = admit(_LEDGER, None, PoolView(engine, kind, use))
    return refusal or Refusal(CapacityFilter.name, RefusalCode.UNSCHEDULABLE, "there is no room")


def _tainted(name: str, taint: PlacementTaint | None) -> Refusal | None:
    if taint is None:
        return None
    return Refusal(
        name, RefusalCode.UNRESOLVABLE, "its taint {} ({}) is not tolerated", (taint.key, taint.effect.value)
    )


_LEDGER: tuple[Filter[object, PoolView], ...] = (DevicesFilter(), CapacityFilter())
