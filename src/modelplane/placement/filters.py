"""What keeps a replica away.

Clusters first, then engines on pools, then whole offers; see `profile` for the order within each.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from modelplane.api.labels import selects
from modelplane.api.models import LabelSelector
from modelplane.framework import Code, Filter, Refusal, admit
from modelplane.placement.cluster_info import PoolKind, Traits
from modelplane.placement.cycle import Pass
from modelplane.placement.matching import Unmatched, engine_ways
from modelplane.placement.offers import ClusterView, Fit, Offer, PoolView, first_fit
from modelplane.placement.plugins import Stage
from modelplane.placement.request import EngineAsk
from modelplane.placement.room import Use
from modelplane.placement.taints import keeping_away
from modelplane.placement.values import Taint
from modelplane.placement.wording import Mismatch, Shortfall

_CACHED: Final = 65_536


def label_keys(*selectors: LabelSelector | None) -> Iterator[str]:
    """The labels that selectors look at."""
    for selector in selectors:
        if selector is not None:
            yield from selector.match_labels
            yield from (found.key for found in selector.match_expressions)


class ClusterSelector:
    name: Final = "ClusterSelector"
    stage: Final = Stage.CLUSTER

    def reads(self, state: Pass, /) -> Iterator[str]:
        return label_keys(state.ask.cluster_selector)

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        if selects(state.ask.cluster_selector, view.sample.labels):
            return None
        return Refusal(self.name, Code.EXCLUDED, "its labels do not match the clusterSelector")


class Affinity:
    name: Final = "Affinity"
    stage: Final = Stage.CLUSTER

    def reads(self, state: Pass, /) -> Iterator[str]:
        return label_keys(*state.ask.required)

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        required = state.ask.required
        if not required or any(selects(selector, view.sample.labels) for selector in required):
            return None
        return Refusal(self.name, Code.EXCLUDED, "it matches none of the {} required selectors", (len(required),))


class Caches:
    name: Final = "Caches"
    stage: Final = Stage.CLUSTER

    def reads(self, state: Pass, /) -> Iterator[str]:
        caches = (state.cache(wanted) for wanted in state.ask.caches)
        return label_keys(*(cache.selector for cache in caches if cache is not None))

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        for wanted in state.ask.caches:
            if not wanted.required:
                continue
            cache = state.cache(wanted)
            if cache is not None and cache.fault:
                return Refusal(self.name, Code.REFUSED, "the cache {} cannot be read: {}", (wanted.name, cache.fault))
            if cache is None:
                return Refusal(self.name, Code.EXCLUDED, "the cache {} does not exist", (wanted.name,))
            if not cache.reaches(view.sample):
                return Refusal(
                    self.name, Code.EXCLUDED, "the cache {} is not staged here and will not be", (wanted.name,)
                )
        return None


class Priorities:
    name: Final = "Priority"
    stage: Final = Stage.CLUSTER

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        wanted, allowed = state.ask.priority, view.traits.priorities
        if wanted is None or not allowed or any(name == wanted for name, _ in allowed):
            return None
        return Refusal(self.name, Code.EXCLUDED, "priority {} is not one of the cluster's", (wanted,))


class ClusterTaints:
    name: Final = "ClusterTaints"
    stage: Final = Stage.CLUSTER

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.traits.taints, state.ask.tolerations))


class Cordoned:
    name: Final = "Cordoned"
    stage: Final = Stage.CLUSTER

    def refuse(self, _state: Pass, view: ClusterView, /) -> Refusal | None:
        return Refusal(self.name, Code.REFUSED, "the cluster is cordoned") if view.traits.cordoned else None


class ClusterReady:
    name: Final = "ClusterReady"
    stage: Final = Stage.CLUSTER

    def refuse(self, _state: Pass, view: ClusterView, /) -> Refusal | None:
        if view.traits.fault:
            return Refusal(self.name, Code.REFUSED, "the cluster cannot be read: {}", (view.traits.fault,))
        return None if view.traits.ready else Refusal(self.name, Code.REFUSED, "the cluster is not ready")


class PoolTaints:
    name: Final = "PoolTaints"
    stage: Final = Stage.POOL

    def refuse(self, state: Pass, view: PoolView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.kind.taints, state.ask.tolerations))


class Devices:
    """Like `Capacity` it reads nothing but the engine and the pool, so its answer holds for all who ask the same."""

    name: Final = "Devices"
    stage: Final = Stage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        ways = engine_ways(view.engine, view.kind.hardware)
        if isinstance(ways, Unmatched):
            return Refusal(self.name, Code.EXCLUDED, "{}", (Mismatch(ways, view.kind.hardware),))
        return None


class Capacity:
    """Refuses what does not fit now; what would not fit the pool even if all of it were there and empty is excluded."""

    name: Final = "Capacity"
    stage: Final = Stage.POOL

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        if first_fit(view.engine, view.kind, view.use) is not None:
            return None
        kind = view.kind
        whole = msgspec.structs.replace(kind, nodes=kind.nodes + kind.away) if kind.away else kind
        code = Code.REFUSED if first_fit(view.engine, whole, ()) is not None else Code.EXCLUDED
        return Refusal(self.name, code, "{}", (Shortfall(view.engine, view.kind, view.use),))


class Quota:
    name: Final = "Quota"
    stage: Final = Stage.OFFER
    steady: Final = True

    def concerns(self, _state: Pass, traits: Collection[Traits], /) -> bool:
        return any(found.quotas for found in traits)

    def refuse(self, state: Pass, offer: Offer, /) -> Refusal | None:
        namespace = state.ask.deployment.namespace
        found = offer.view.traits.quota_left(namespace)
        if found is None or offer.devices <= found[0]:
            return None
        left, limit = found
        code = Code.EXCLUDED if offer.devices > limit else Code.REFUSED
        text = "needs {} devices, {} of {} are left of the quota of namespace {}"
        return Refusal(self.name, code, text, (offer.devices, max(left, 0), limit, namespace))


class QueueRoom:
    name: Final = "Queue"
    stage: Final = Stage.OFFER
    steady: Final = True

    def concerns(self, _state: Pass, traits: Collection[Traits], /) -> bool:
        return any(found.queue_left is not None for found in traits)

    def refuse(self, _state: Pass, offer: Offer, /) -> Refusal | None:
        traits = offer.view.traits
        left, limit = traits.queue_left, traits.queue_limit
        if left is None or limit is None or offer.devices <= left:
            return None
        code = Code.EXCLUDED if offer.devices > limit else Code.REFUSED
        text = "needs {} devices, the cluster's queue has {} of {} left"
        return Refusal(self.name, code, text, (offer.devices, max(left, 0), limit))


class Spread:
    name: Final = "Spread"
    stage: Final = Stage.OFFER

    def concerns(self, state: Pass, _traits: Collection[Traits], /) -> bool:
        return any(domain.rule.hard for domain in state.domains)

    def reads(self, state: Pass, /) -> Iterator[str]:
        return (rule.key for rule in state.ask.spread)

    def refuse(self, state: Pass, offer: Offer, /) -> Refusal | None:
        for domain in state.domains:
            if not domain.rule.hard:
                continue
            value = offer.view.sample.labels.get(domain.rule.key)
            if value is None:
                return Refusal(self.name, Code.EXCLUDED, "it has no label {}", (domain.rule.key,))
            ahead = domain.ahead(value) + 1
            if ahead > domain.rule.max_skew:
                text = "{} {} would be {} replicas ahead of another, {} allowed"
                return Refusal(self.name, Code.REFUSED, text, (domain.rule.key, value, ahead, domain.rule.max_skew))
        return None


@lru_cache(maxsize=_CACHED)
def seat_engine(engine: EngineAsk, kind: PoolKind, use: Use) -> Fit | Refusal:
    """How an engine would sit on a pool, or why it cannot."""
    fit = first_fit(engine, kind, use)
    if fit is not None:
        return fit
    refusal = admit(_LEDGER, None, PoolView(engine, kind, use))
    return refusal or Refusal(Capacity.name, Code.REFUSED, "there is no room")


def _tainted(name: str, taint: Taint | None) -> Refusal | None:
    if taint is None:
        return None
    return Refusal(name, Code.EXCLUDED, "its taint {} ({}) is not tolerated", (taint.key, taint.effect.value))


_LEDGER: tuple[Filter[object, PoolView], ...] = (Devices(), Capacity())
