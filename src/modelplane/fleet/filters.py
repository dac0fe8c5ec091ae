"""What keeps a replica away, in the order it is asked.

Clusters first, then engines on pools, then whole offers. The order is for people: the first refusal is the one shown,
so what cannot be helped comes before what may pass.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from modelplane.api.labels import selects
from modelplane.fleet.ask import EngineAsk
from modelplane.fleet.matching import Unmatched, engine_ways
from modelplane.fleet.offers import ClusterView, Fit, Offer, PoolView, first_fit
from modelplane.fleet.passing import Pass
from modelplane.fleet.room import Use
from modelplane.fleet.site import PoolKind, Traits
from modelplane.fleet.taints import keeping_away
from modelplane.fleet.values import Taint
from modelplane.fleet.wording import Mismatch, Shortfall
from modelplane.framework import Code, Filter, Refusal, admit

_CACHED: Final = 65_536


class ClusterSelector:
    name: Final = "ClusterSelector"

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        if selects(state.ask.cluster_selector, view.sample.labels):
            return None
        return Refusal(self.name, Code.EXCLUDED, "its labels do not match the clusterSelector")


class Affinity:
    name: Final = "Affinity"

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        required = state.ask.required
        if not required or any(selects(selector, view.sample.labels) for selector in required):
            return None
        return Refusal(self.name, Code.EXCLUDED, "it matches none of the {} required selectors", (len(required),))


class Caches:
    name: Final = "Caches"

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        for wanted in state.ask.caches:
            if not wanted.required:
                continue
            cache = state.fleet.caches.get((state.ask.deployment.namespace, wanted.name))
            if cache is None:
                return Refusal(self.name, Code.EXCLUDED, "the cache {} does not exist", (wanted.name,))
            if not cache.reaches(view.sample):
                return Refusal(
                    self.name, Code.EXCLUDED, "the cache {} is not staged here and will not be", (wanted.name,)
                )
        return None


class Priorities:
    name: Final = "Priority"

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        wanted, allowed = state.ask.priority, view.traits.priorities
        if wanted is None or not allowed or any(name == wanted for name, _ in allowed):
            return None
        return Refusal(self.name, Code.EXCLUDED, "priority {} is not one of the cluster's", (wanted,))


class ClusterTaints:
    name: Final = "ClusterTaints"

    def refuse(self, state: Pass, view: ClusterView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.traits.taints, state.ask.tolerations))


class Cordoned:
    name: Final = "Cordoned"

    def refuse(self, _state: Pass, view: ClusterView, /) -> Refusal | None:
        return Refusal(self.name, Code.REFUSED, "the cluster is cordoned") if view.traits.cordoned else None


class ClusterReady:
    name: Final = "ClusterReady"

    def refuse(self, _state: Pass, view: ClusterView, /) -> Refusal | None:
        if view.traits.fault:
            return Refusal(self.name, Code.REFUSED, "the cluster cannot be read: {}", (view.traits.fault,))
        return None if view.traits.ready else Refusal(self.name, Code.REFUSED, "the cluster is not ready")


class PoolTaints:
    name: Final = "PoolTaints"

    def refuse(self, state: Pass, view: PoolView, /) -> Refusal | None:
        return _tainted(self.name, keeping_away(view.kind.taints, state.ask.tolerations))


class Devices:
    name: Final = "Devices"

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        ways = engine_ways(view.engine, view.kind.hardware)
        if isinstance(ways, Unmatched):
            return Refusal(self.name, Code.EXCLUDED, "{}", (Mismatch(ways, view.kind.hardware),))
        return None


class Capacity:
    """Refuses what does not fit now; what would not fit the pool even if it were empty is excluded."""

    name: Final = "Capacity"

    def refuse(self, _state: object, view: PoolView, /) -> Refusal | None:
        if first_fit(view.engine, view.kind, view.use) is not None:
            return None
        code = Code.REFUSED if first_fit(view.engine, view.kind, ()) is not None else Code.EXCLUDED
        return Refusal(self.name, code, "{}", (Shortfall(view.engine, view.kind, view.use),))


class Quota:
    name: Final = "Quota"

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
    refusal = admit(ENGINE_FILTERS, None, PoolView(engine, kind, use))
    return refusal or Refusal(Capacity.name, Code.REFUSED, "there is no room")


def offer_filters(state: Pass, traits: Collection[Traits]) -> tuple[Filter[Pass, Offer], ...]:
    """The filters on whole offers that have something to say in a pass over clusters with these traits."""
    wanted: list[tuple[Filter[Pass, Offer], bool]] = [
        (Quota(), any(found.quotas for found in traits)),
        (QueueRoom(), any(found.queue_left is not None for found in traits)),
        (Spread(), bool(state.domains)),
    ]
    return tuple(plugin for plugin, applies in wanted if applies)


def _tainted(name: str, taint: Taint | None) -> Refusal | None:
    if taint is None:
        return None
    return Refusal(name, Code.EXCLUDED, "its taint {} ({}) is not tolerated", (taint.key, taint.effect.value))


CLUSTER_FILTERS: tuple[Filter[Pass, ClusterView], ...] = (
    ClusterSelector(),
    Affinity(),
    Caches(),
    Priorities(),
    ClusterTaints(),
    Cordoned(),
    ClusterReady(),
)
POOL_FILTERS: tuple[Filter[Pass, PoolView], ...] = (PoolTaints(),)
ENGINE_FILTERS: tuple[Filter[object, PoolView], ...] = (Devices(), Capacity())
"""These read nothing but the engine and the pool, so an answer holds for every deployment that asks the same."""
