"""What services carry: requests, tokens and times of their clients, beside the devices and the price behind them.

Requests and times are those of endpoints that are measured, tokens those that somebody counted. What nobody measured is
None and never zero. A replica behind two services counts for both.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from modelplane.api.codec import decode_readable
from modelplane.api.labels import selects
from modelplane.api.models import ModelReplica, ModelService
from modelplane.api.objects import Manifest, labels_of, name_of, namespace_of, text_at
from modelplane.compose.canary_analysis import endpoint_traffic
from modelplane.compose.fleet_snapshot import fleet_of, read_replica
from modelplane.placement.snapshot import Fleet
from modelplane.views.fleet_load import (
    HourlyPrice,
    MeasuredTraffic,
    devices_of,
    measured_traffic,
    sum_of_prices,
)
from modelplane.views.inputs import FleetManifests
from modelplane.views.plan import price_of

_Name = tuple[str, str]
_LEAST_S = 60.0
_HOUR_S = 3600.0
_MILLION = 1e6


class TokenRate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens a second, read and written, over the time in which they were counted."""

    input_per_second: float
    output_per_second: float


class TokenPrice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a million tokens cost: an estimate, since the price of now is taken for all the time."""

    per_million: float
    currency: str
    tokens: int
    """Read and written, that were counted."""
    hours: float
    """In which they were."""


class ServiceLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    endpoints: int
    ready_endpoints: int
    devices: int
    """Of the replicas behind its endpoints."""
    traffic: MeasuredTraffic | None
    tokens: TokenRate | None
    price: HourlyPrice | None
    """Of those replicas. None where one has no price, or an endpoint is somebody else's."""


def token_price(price: HourlyPrice | None, tokens: int, seconds: float) -> TokenPrice | None:
    """None where no price is known, or less than a minute or no token was counted."""
    if price is None or tokens <= 0 or seconds < _LEAST_S:
        return None
    hours = seconds / _HOUR_S
    return TokenPrice(
        per_million=round(price.per_hour * hours / (tokens / _MILLION), 6),
        currency=price.currency,
        tokens=tokens,
        hours=round(hours, 2),
    )


def service_loads(
    inputs: FleetManifests,
    services: Sequence[Manifest],
    endpoints: Sequence[Manifest],
    tokens: Mapping[str, TokenRate],
) -> tuple[ServiceLoad, ...]:
    """`tokens` are by namespace/name of services."""
    fleet = fleet_of(inputs.clusters, inputs.replicas, inputs.caches)
    held = {(namespace_of(item), name_of(item)): _held(item, fleet) for item in inputs.replicas}
    found = decode_readable(ModelService, services)
    return tuple(_service(item, _selected(item, endpoints), held, tokens, inputs.now) for item in found)


class _Held(NamedTuple):
    """What a replica holds."""

    devices: int
    price: HourlyPrice | None


_NOTHING = _Held(0, None)


def _held(item: Manifest, fleet: Fleet) -> _Held:
    read, placed = decode_readable(ModelReplica, (item,)), read_replica(item)
    devices = sum(devices_of(each) for each in read)
    if placed is None or placed.cluster not in fleet.infos:
        return _Held(devices, None)
    price = price_of(placed, fleet.infos[placed.cluster])
    return _Held(devices, HourlyPrice(*price) if price else None)


def _service(
    item: ModelService,
    chosen: Sequence[Manifest],
    held: Mapping[_Name, _Held],
    tokens: Mapping[str, TokenRate],
    now: float,
) -> ServiceLoad:
    namespace, name = item.metadata.namespace, item.metadata.name
    behind = [held.get((namespace, text_at(each, "spec", "replica", "name")), _NOTHING) for each in chosen]
    counts = item.status.endpoints
    return ServiceLoad(
        namespace=namespace,
        name=name,
        endpoints=len(chosen),
        ready_endpoints=(counts.ready if counts else None) or 0,
        devices=sum(each.devices for each in behind),
        traffic=measured_traffic([found for each in chosen if (found := endpoint_traffic(each, now)) is not None]),
        tokens=tokens.get(f"{namespace}/{name}"),
        price=sum_of_prices([each.price for each in behind]),
    )


def _selected(service: ModelService, endpoints: Sequence[Manifest]) -> list[Manifest]:
    return [
        each
        for each in endpoints
        if namespace_of(each) == service.metadata.namespace
        and any(selects(group.selector, labels_of(each)) for group in service.spec.endpoints)
    ]
