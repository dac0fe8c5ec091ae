"""The filters of placement.

They are applied to clusters first, then to engines on pools, then to whole options; see `profile` for the order
within each.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

from modelplane.api.labels import DRAIN, selects
from modelplane.api.models import LabelSelector
from modelplane.framework import Filter, Refusal, RefusalCode, admit
from modelplane.placement.cluster_info import ClusterProfile, PoolShape
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.matching import Unmatched, engine_allocations
from modelplane.placement.offers import ClusterView, Fit, PlacementOption, PoolView, first_fit
from modelplane.placement.plugins import FilterStage
from modelplane.placement.pool_usage import EMPTY, PoolUsage
from modelplane.placement.request import EngineRequest
from modelplane.placement.taints import keeping_away
from modelplane.placement.values import PlacementTaint
from modelplane.placement.wording import Mismatch, Shortfall, Untolerated

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
        return label_keys(state.request.cluster_selector)

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        if selects(state.request.cluster_selector, view.sample.labels):
            return None
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, "its labels do not match the clusterSelector")


class AffinityFilter:
    name: Final = "Affinity"
    stage: Final = FilterStage.CLUSTER

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return label_keys(*state.request.required)

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        required = state.request.required
        if not required or any(selects(selector, view.sample.labels) for selector in required):
            return None
        return Refusal(
            self.name, RefusalCode.UNRESOLVABLE, "its labels match none of the {} required selectors", (len(required),)
        )


class CachesFilter:
    name: Final = "Caches"
    stage: Final = FilterStage.CLUSTER
    missing: Final = "ModelCache {}/{} does not exist: create it, or correct its name"
    stalled: Final = "cache {} is not staged here: {}"

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        caches = (state.cache(wanted) for wanted in state.request.caches)
        return label_keys(*(cache.selector for cache in caches if cache is not None))

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        for wanted in state.request.caches:
            cache = state.cache(wanted)
            if not wanted.required:
                continue
            if cache is not None and cache.fault:
                return Refusal(
                    self.name, RefusalCode.UNSCHEDULABLE, "cache {} cannot be read: {}", (wanted.name, cache.fault)
                )
            if cache is None:
                where = state.request.deployment.namespace
                return Refusal(self.name, RefusalCode.UNRESOLVABLE, self.missing, (where, wanted.name))
            if not cache.settled:
                return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "cache {} is not reconciled yet", (wanted.name,))
            if (why := cache.refusal(view.sample.name)) is not None:
                text = "cache {} cannot be staged here: {}"
                return Refusal(self.name, RefusalCode.UNRESOLVABLE, text, (wanted.name, why))
            if (why := cache.stall(view.sample.name)) is not None:
                return Refusal(self.name, RefusalCode.UNSCHEDULABLE, self.stalled, (wanted.name, why))
            if view.sample.name in cache.awaited:
                return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "cache {} is being staged here", (wanted.name,))
            if not cache.reaches(view.sample):
                return Refusal(
                    self.name,
                    RefusalCode.UNRESOLVABLE,
                    "cache {} is not staged here, and its clusterSelector does not match",
                    (wanted.name,),
                )
        return None


class BackendFilter:
    """Refuses clusters that could not run a replica: an image, a version or a source is missing there."""

    name: Final = "Backend"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        why = state.cannot_run(view.profile.rendering)
        return None if why is None else Refusal(self.name, RefusalCode.UNRESOLVABLE, "{}", (why,))


class PrioritiesFilter:
    name: Final = "Priority"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        wanted, allowed = state.request.priority, view.profile.priorities
        if wanted is None or not allowed or any(name == wanted for name, _ in allowed):
            return None
        return Refusal(
            self.name,
            RefusalCode.UNRESOLVABLE,
            "priority {} is not one of the {} that the cluster allows",
            (wanted, len(allowed)),
        )


class ClusterTaintsFilter:
    name: Final = "ClusterTaints"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        return _tainted(self.name, view.profile.taints, state)


class CordonedFilter:
    name: Final = "Cordoned"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, _state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        return (
            Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster is cordoned") if view.profile.cordoned else None
        )


class ClusterReadyFilter:
    name: Final = "ClusterReady"
    stage: Final = FilterStage.CLUSTER

    def refuse(self, _state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        if view.profile.deletion:
            said = "the cluster is being deleted: {}"
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, said, (view.profile.deletion,))
        if view.profile.fault:
            return Refusal(
                self.name, RefusalCode.UNSCHEDULABLE, "the cluster cannot be read: {}", (view.profile.fault,)
            )
        return None if view.profile.ready else Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster is not ready")


class PoolTaintsFilter:
    name: Final = "PoolTaints"
    stage: Final = FilterStage.POOL

    def refuse(self, state: SchedulingCycle, view: PoolView, /) -> Refusal | None:
        return _tainted(self.name, view.kind.taints, state)


class DevicesFilter:
    """Like `Capacity` it reads nothing but the engine and the pool, so its answer holds for equal requests."""

    name: Final = "Devices"
    stage: Final = FilterStage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        allocations = engine_allocations(view.engine, view.kind.hardware)
        if isinstance(allocations, Unmatched):
            return Refusal(self.name, RefusalCode.UNRESOLVABLE, "{}", (Mismatch(allocations, view.kind.hardware),))
        return None


class CapacityFilter:
    """Refuses what does not fit now; what would not fit the pool even if all of it were there and empty is excluded."""

    name: Final = "Capacity"
    stage: Final = FilterStage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        return None if first_fit(view.engine, view.kind, view.usage) is not None else self.too_full(view)

    @classmethod
    def too_full(cls, view: PoolView) -> Refusal:
        fits_empty = first_fit(view.engine, view.kind.whole, EMPTY) is not None
        code = RefusalCode.UNSCHEDULABLE if fits_empty else RefusalCode.UNRESOLVABLE
        return Refusal(cls.name, code, "{}", (Shortfall(view.engine, view.kind, view.usage),))


class QuotaFilter:
    name: Final = "Quota"
    stage: Final = FilterStage.OFFER
    steady: Final = True

    def applies(self, _state: SchedulingCycle, profiles: Collection[ClusterProfile], /) -> bool:
        return any(found.quotas for found in profiles)

    def refuse(self, state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        namespace = state.request.deployment.namespace
        found = offer.view.profile.quota_left(namespace)
        if found is None or offer.devices <= found[0]:
            return None
        left, limit = found
        code = RefusalCode.UNRESOLVABLE if offer.devices > limit else RefusalCode.UNSCHEDULABLE
        text = "needs {} devices; namespace {} has {} of {} left in its quota"
        return Refusal(self.name, code, text, (offer.devices, namespace, max(left, 0), limit))


class QueueFilter:
    name: Final = "Queue"
    stage: Final = FilterStage.OFFER
    steady: Final = True

    def applies(self, _state: SchedulingCycle, profiles: Collection[ClusterProfile], /) -> bool:
        return any(found.queue is not None or found.queue_template for found in profiles)

    def refuse(self, state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        cluster_profile = offer.view.profile
        queue = cluster_profile.queue_of(state.request.deployment.namespace)
        if queue is None or offer.devices <= queue.left:
            return None
        if queue.missing:
            return Refusal(self.name, RefusalCode.UNSCHEDULABLE, "the cluster has no queue {}", (queue.name,))
        code = RefusalCode.UNRESOLVABLE if offer.devices > queue.limit else RefusalCode.UNSCHEDULABLE
        whose = f"queue {queue.name}" if cluster_profile.queue_template else "the cluster's queue"
        text = "needs {} devices; {} has {} of {} left"
        return Refusal(self.name, code, text, (offer.devices, whose, max(queue.left, 0), queue.limit))


class SpreadFilter:
    name: Final = "Spread"
    stage: Final = FilterStage.OFFER

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return any(domain.rule.hard for domain in state.domains)

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return (rule.key for rule in state.request.spread)

    def refuse(self, state: SchedulingCycle, offer: PlacementOption, /) -> Refusal | None:
        for domain in state.domains:
            if not domain.rule.hard:
                continue
            value = offer.view.sample.labels.get(domain.rule.key)
            if value is None:
                return Refusal(self.name, RefusalCode.UNRESOLVABLE, "the cluster has no label {}", (domain.rule.key,))
            ahead = domain.ahead(value) + 1
            if ahead > domain.rule.max_skew:
                text = "{} {} would have {} replicas more than another value; at most {} are allowed"
                return Refusal(
                    self.name, RefusalCode.UNSCHEDULABLE, text, (domain.rule.key, value, ahead, domain.rule.max_skew)
                )
        return None


@lru_cache(maxsize=_CACHED)
def fit_engine(engine: EngineRequest, kind: PoolShape, usage: PoolUsage) -> Fit | Refusal:
    """How an engine would sit on a pool, or why it cannot."""
    fit = first_fit(engine, kind, usage)
    if fit is not None:
        return fit
    view = PoolView(engine, kind, usage)
    return DevicesFilter().refuse(None, view) or CapacityFilter.too_full(view)


@lru_cache(maxsize=_CACHED)
def never_fits(engine: EngineRequest, kind: PoolShape) -> Refusal | None:
    """Why an engine does not fit a pool even if all of it were there and empty; None where it would."""
    refusal = admit(_ACCOUNTING, None, PoolView(engine, kind, EMPTY))
    return refusal if refusal is not None and refusal.code is RefusalCode.UNRESOLVABLE else None


def _tainted(name: str, taints: tuple[PlacementTaint, ...], state: SchedulingCycle) -> Refusal | None:
    """A drain ends, so it is the answer only where no other taint keeps the replica away."""
    lasting = keeping_away((taint for taint in taints if taint.key != DRAIN), state.request.tolerations)
    if lasting is not None:
        return Refusal(name, RefusalCode.UNRESOLVABLE, "{}", (Untolerated(lasting, state.request.tolerations),))
    if any(taint.key == DRAIN for taint in taints):
        return Refusal(name, RefusalCode.UNSCHEDULABLE, "it is being drained")
    return None


_ACCOUNTING: tuple[Filter[object, PoolView], ...] = (DevicesFilter(), CapacityFilter())
