"""What a fleet costs: by the hour for each team and deployment, and for a million tokens where tokens were counted.

Prices are those of `fleet_load`: a deployment costs the parts of nodes that its replicas take, and what is left of the
nodes' price is nobody's. Tokens come from the usage records of fleet routers. A million tokens cost what the deployment
costs now, over the time in which they were counted: what it cost then is not recorded. What is not known is None.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from modelplane.api.labels import DEPLOYMENT
from modelplane.api.objects import Manifest, labels_of, name_of, namespace_of
from modelplane.views.fleet_load import DeploymentLoad, FleetLoad, HourlyPrice

_DIGITS = 6
_MILLION = 1e6
_HOUR_S = 3600.0
_Name = tuple[str, str]


class EndpointUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What clients used of one ModelEndpoint."""

    endpoint: str
    """Its namespace and name."""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    spent: float = 0.0
    """By the prices for tokens that the endpoint or its service has, as a provider's."""


class UsedTokens(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class DeploymentCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    devices: int
    price: HourlyPrice | None
    used: UsedTokens | None
    """None where no request was recorded."""
    per_million_tokens: float | None
    """In the currency of the price."""


class TeamCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A namespace. A team that pays in two currencies has two prices."""

    namespace: str
    deployments: int
    devices: int
    prices: tuple[HourlyPrice, ...]
    unpriced: int
    """Deployments that hold devices without a price: the prices lack them."""
    spent: float
    """At providers, in the time of the records."""


class CurrencyCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    currency: str
    nodes_per_hour: float
    deployments_per_hour: float
    rest_per_hour: float
    """Of devices that are free, held by others, missing or lost."""


class FleetCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    hours: float | None
    """For how long requests were recorded. None: not at all."""
    totals: tuple[CurrencyCost, ...] = ()
    teams: tuple[TeamCost, ...] = ()
    deployments: tuple[DeploymentCost, ...] = ()


def fleet_cost(
    load: FleetLoad,
    endpoints: Sequence[Manifest] = (),
    usage: Iterable[EndpointUsage] = (),
    *,
    window_s: float = 0.0,
) -> FleetCost:
    """`window_s` is for how long the usage was recorded."""
    owners = {(namespace_of(item), name_of(item)): labels_of(item).get(DEPLOYMENT, "") for item in endpoints}
    used: defaultdict[_Name, list[EndpointUsage]] = defaultdict(list)
    for each in usage:
        namespace, _, name = each.endpoint.partition("/")
        used[namespace, owners.get((namespace, name), "")].append(each)
    hours = window_s / _HOUR_S if used else None
    return FleetCost(
        hours=None if hours is None else round(hours, _DIGITS),
        totals=tuple(_totals(load)),
        teams=tuple(_team(name, load.deployments, used) for name in _teams(load, used)),
        deployments=tuple(_deployment(row, used.get((row.namespace, row.name), ()), hours) for row in load.deployments),
    )


def _teams(load: FleetLoad, used: Iterable[_Name]) -> list[str]:
    return sorted({row.namespace for row in load.deployments} | {namespace for namespace, _ in used})


def _deployment(row: DeploymentLoad, used: Sequence[EndpointUsage], hours: float | None) -> DeploymentCost:
    tokens = _sum(used)
    million = None
    if tokens is not None and tokens.tokens and row.price is not None and hours:
        million = round(row.price.per_hour * hours / (tokens.tokens / _MILLION), _DIGITS)
    return DeploymentCost(
        namespace=row.namespace,
        name=row.name,
        devices=row.devices,
        price=row.price,
        used=tokens,
        per_million_tokens=million,
    )


def _sum(used: Sequence[EndpointUsage]) -> UsedTokens | None:
    if not used:
        return None
    return UsedTokens(
        requests=sum(each.requests for each in used),
        input_tokens=sum(each.input_tokens for each in used),
        output_tokens=sum(each.output_tokens for each in used),
    )


def _team(
    namespace: str, deployments: Iterable[DeploymentLoad], used: Mapping[_Name, Sequence[EndpointUsage]]
) -> TeamCost:
    ours = [row for row in deployments if row.namespace == namespace]
    spent = sum(each.spent for (team, _), found in used.items() if team == namespace for each in found)
    return TeamCost(
        namespace=namespace,
        deployments=len(ours),
        devices=sum(row.devices for row in ours),
        prices=_by_currency(row.price for row in ours),
        unpriced=sum(row.price is None and row.devices > 0 for row in ours),
        spent=round(spent, _DIGITS),
    )


def _totals(load: FleetLoad) -> Iterable[CurrencyCost]:
    placed = {price.currency: price.per_hour for price in _by_currency(row.price for row in load.deployments)}
    for nodes in _by_currency(pool.price for pool in load.pools):
        taken = placed.get(nodes.currency, 0.0)
        yield CurrencyCost(
            currency=nodes.currency,
            nodes_per_hour=nodes.per_hour,
            deployments_per_hour=taken,
            rest_per_hour=round(nodes.per_hour - taken, _DIGITS),
        )


def _by_currency(prices: Iterable[HourlyPrice | None]) -> tuple[HourlyPrice, ...]:
    sums: defaultdict[str, float] = defaultdict(float)
    for price in prices:
        if price is not None:
            sums[price.currency] += price.per_hour
    return tuple(HourlyPrice(round(amount, _DIGITS), currency) for currency, amount in sorted(sums.items()))
