"""Cheaper is better: what serving the request would cost at each endpoint, relative to the others.

An endpoint's price is per hour; with a prefill rate it becomes the price of the tokens that the endpoint would have to
compute, so a cheap but slow server does not score too high. An endpoint without a price scores 0, like the most
expensive one.
"""

from collections.abc import Sequence
from math import isfinite

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework.registry import Parameters, plugin_type

PRICE = "price-per-hour"
RATE = "prefill-tokens-per-second"


class CostParameters(Parameters, frozen=True):
    price_attribute: str = PRICE
    rate_attribute: str = RATE
    """The attribute that an endpoint's price is divided by. Empty: prices alone count."""


class CostScorer:
    __slots__ = ("_price", "_rate", "name")

    def __init__(self, name: str, parameters: CostParameters) -> None:
        if not parameters.price_attribute:
            raise InputError("priceAttribute is required")
        self.name = name
        self._price = parameters.price_attribute
        self._rate = parameters.rate_attribute

    def score(self, _context: SchedulingContext, endpoints: Sequence[Endpoint], /) -> list[float]:
        by_rate = bool(self._rate) and all(self._rate in endpoint.attributes for endpoint in endpoints)
        costs = [self._cost(endpoint, by_rate=by_rate) for endpoint in endpoints]
        known = [cost for cost in costs if cost is not None]
        if not known:
            return [0.0] * len(costs)
        least, most = min(known), max(known)
        span = most - least
        return [0.0 if cost is None else (most - cost) / span if span else 1.0 for cost in costs]

    def _cost(self, endpoint: Endpoint, *, by_rate: bool) -> float | None:
        """None: not known. A rate counts only where every endpoint has one; else units would be mixed."""
        price = endpoint.attributes.get(self._price)
        if price is None or not isfinite(price) or price < 0.0:
            return None
        if not by_rate:
            return price
        rate = endpoint.attributes[self._rate]
        return price / rate if isfinite(rate) and rate > 0.0 else None


TYPES = (plugin_type("cost-scorer", CostScorer, CostParameters),)
