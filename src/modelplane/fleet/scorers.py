"""How good an offer is. Each score lies in [0, 1]; the weights come from the deployment.

spread       1 / (1 + replicas of the deployment on the cluster)
staged       the share of the deployment's caches that the cluster holds already
headroom     the share of the fullest pool's devices that stay free
price        the cheapest offer's price over this one's, in the same currency; 0.5 where there is no price to compare
stickiness   1 where a replica of the deployment leaves in the same pass, so that its successor stays
preferred    the share of the preferred weights that the cluster's labels match
topology     1 / (1 + how far the label's value is ahead of the emptiest), for spread rules that only prefer

A score that has nothing to say for a deployment is left out of its profile.
"""

from collections.abc import Collection, Sequence
from typing import Final

from modelplane.api.labels import selects
from modelplane.fleet.filters import offer_filters
from modelplane.fleet.offers import Offer
from modelplane.fleet.passing import Pass
from modelplane.fleet.site import Traits
from modelplane.framework import Profile, Scored, Scorer, Weighted

UNPRICED: Final = 0.5


class SpreadOver:
    name: Final = "spread"

    def score(self, _state: Pass, offers: Sequence[Offer], /) -> list[float]:
        return [1.0 / (1 + offer.load) for offer in offers]


class Staged:
    name: Final = "staged"

    def score(self, state: Pass, offers: Sequence[Offer], /) -> list[float]:
        caches = [state.cache(wanted) for wanted in state.ask.caches]
        return [
            sum(cache is not None and offer.view.sample.name in cache.staged for cache in caches) / len(caches)
            for offer in offers
        ]


class Headroom:
    name: Final = "headroom"

    def score(self, _state: Pass, offers: Sequence[Offer], /) -> list[float]:
        return [offer.headroom for offer in offers]


class Cheap:
    name: Final = "price"

    def score(self, state: Pass, offers: Sequence[Offer], /) -> list[float]:
        return [self._one(state, offer) for offer in offers]

    def _one(self, state: Pass, offer: Offer) -> float:
        price = offer.price
        if price is None or price[1] not in state.cheapest:
            return UNPRICED
        amount, currency = price
        # A price that fell below the cheapest seen at the start of the pass is the best all the same.
        return min(1.0, state.cheapest[currency] / amount) if amount > 0 else 1.0


class Stickiness:
    name: Final = "stickiness"

    def score(self, _state: Pass, offers: Sequence[Offer], /) -> list[float]:
        return [1.0 if offer.returning else 0.0 for offer in offers]


class Preferred:
    name: Final = "preferred"

    def score(self, state: Pass, offers: Sequence[Offer], /) -> list[float]:
        preferred = state.ask.preferred
        whole = sum(preference.weight for preference in preferred) or 1
        return [
            sum(p.weight for p in preferred if selects(p.selector, offer.view.sample.labels)) / whole
            for offer in offers
        ]


class Topology:
    name: Final = "topology"

    def score(self, state: Pass, offers: Sequence[Offer], /) -> list[float]:
        soft = [domain for domain in state.domains if not domain.rule.hard]
        return [
            sum(domain.evenness(offer.view.sample.labels.get(domain.rule.key)) for domain in soft) / len(soft)
            for offer in offers
        ]


class BestFirst:
    """The highest total first; ties break on the names of cluster and pool, so that equal fleets get equal answers."""

    name: Final = "best-first"

    def pick(self, _state: Pass, scored: Sequence[Scored[Offer]], /) -> list[Scored[Offer]]:
        return sorted(scored, key=lambda found: (-found.total, found.candidate.places[0]))


def profile_for(state: Pass, traits: Collection[Traits]) -> Profile[Pass, Offer]:
    """The filters and scores that concern the deployment of a pass."""
    ask, weights = state.ask, state.ask.weights
    wanted: list[tuple[Scorer[Pass, Offer], float, bool]] = [
        (SpreadOver(), weights.spread, True),
        (Staged(), weights.staged, bool(ask.caches)),
        (Headroom(), weights.headroom, True),
        (Cheap(), weights.price, bool(state.cheapest)),
        (Stickiness(), weights.stickiness, bool(state.returning)),
        (Preferred(), 1.0, bool(ask.preferred)),
        (Topology(), 1.0, any(not rule.hard for rule in ask.spread)),
    ]
    scorers = tuple(Weighted(scorer, weight) for scorer, weight, applies in wanted if applies and weight > 0)
    return Profile("place", BestFirst(), offer_filters(state, traits), scorers)
