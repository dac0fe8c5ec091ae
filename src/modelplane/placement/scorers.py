"""How good an option is. Each score lies in [0, 1]; the weights come from the deployment.

spread       1 / (1 + replicas of the deployment on the cluster)
staged       the share of the deployment's caches that the cluster holds already
headroom     the share of the fullest pool's devices that stay free
price        the cheapest offer's price over this one's, in the same currency; 0.5 where there is no price to compare
stickiness   1 where a replica of the deployment leaves in the same cycle, so that its successor stays
preferred    the share of the preferred weights that the cluster's labels match
topology     1 / (1 + how far the label's value is ahead of the emptiest), for spread rules that only prefer

A scorer that does not apply in a cycle is left out of it. Unless weights or preferences are stated, the replicas of a
deployment spread evenly and scores decide among clusters with equally many; see `plugins`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from modelplane.api.labels import selects
from modelplane.framework import Scored
from modelplane.placement.cluster_info import ClusterProfile
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import label_keys
from modelplane.placement.offers import PlacementOption

UNPRICED: Final = 0.5


class SpreadScorer:
    name: Final = "spread"
    steady: Final = True
    evenly: Final = True

    def score(self, _state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        return [1.0 / (1 + offer.load) for offer in offers]


class StagedScorer:
    name: Final = "staged"
    steady: Final = True

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return bool(state.request.caches)

    def score(self, state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        caches = [state.cache(wanted) for wanted in state.request.caches]
        return [
            sum(cache is not None and offer.view.sample.name in cache.staged for cache in caches) / len(caches)
            for offer in offers
        ]


class HeadroomScorer:
    name: Final = "headroom"
    steady: Final = True

    def score(self, _state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        return [offer.headroom for offer in offers]


class PriceScorer:
    name: Final = "price"
    steady: Final = True

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return bool(state.cheapest)

    def score(self, state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        return [self._one(state, offer) for offer in offers]

    def _one(self, state: SchedulingCycle, offer: PlacementOption) -> float:
        price = offer.price
        if price is None or price[1] not in state.cheapest:
            return UNPRICED
        amount, currency = price
        # A price that fell below the cheapest seen at the start of the cycle is the best all the same.
        return min(1.0, state.cheapest[currency] / amount) if amount > 0 else 1.0


class StickinessScorer:
    name: Final = "stickiness"
    steady: Final = True

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return bool(state.returning)

    def score(self, _state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        return [1.0 if offer.returning else 0.0 for offer in offers]


class PreferredScorer:
    name: Final = "preferred"
    steady: Final = True

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return bool(state.request.preferred)

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return label_keys(*(preference.selector for preference in state.request.preferred))

    def score(self, state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        preferred = state.request.preferred
        whole = sum(preference.weight for preference in preferred) or 1
        return [
            sum(p.weight for p in preferred if selects(p.selector, offer.view.sample.labels)) / whole
            for offer in offers
        ]


class TopologySpreadScorer:
    name: Final = "topology"

    def applies(self, state: SchedulingCycle, _profiles: Collection[ClusterProfile], /) -> bool:
        return any(not domain.rule.hard for domain in state.domains)

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return (rule.key for rule in state.request.spread)

    def score(self, state: SchedulingCycle, offers: Sequence[PlacementOption], /) -> list[float]:
        soft = [domain for domain in state.domains if not domain.rule.hard]
        return [
            sum(domain.evenness(offer.view.sample.labels.get(domain.rule.key)) for domain in soft) / len(soft)
            for offer in offers
        ]


class BestFirstPicker:
    """The highest total first; ties break on the names of cluster and pool, so that equal fleets get equal answers."""

    name: Final = "best-first"

    def pick(
        self, _state: SchedulingCycle, scored: Sequence[Scored[PlacementOption]], /
    ) -> list[Scored[PlacementOption]]:
        return sorted(scored, key=lambda found: (-found.total, found.candidate.places[0]))
