"""Endpoints with what their gateway measured of them in the last minute."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from modelplane.api.codec import encode
from modelplane.api.labels import REVISION
from modelplane.api.models import EndpointTraffic
from modelplane.api.objects import Manifest, labels_of, mapping_at, text_at
from modelplane.api.timestamps import timestamp
from modelplane.compose.canary_analysis import endpoint_traffic

_WINDOW_S = 60
_Place = tuple[str, str]


class ReplicaTraffic(Protocol):
    """Who carries the requests of all replicas."""

    def figures(self, now: float) -> Mapping[_Place, EndpointTraffic]:
        """By namespace and name of replicas that had requests. A replica that is not here had none."""

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when figures change. Returns the unsubscriber."""


def with_traffic(
    endpoints: Mapping[_Place, Manifest], figures: Mapping[_Place, EndpointTraffic] | None, now: float
) -> Mapping[_Place, Manifest]:
    """None: nobody measures. What a status says itself stays: it is what a canary is judged by."""
    if figures is None:
        return endpoints
    idle = EndpointTraffic(measured_at=timestamp(now), window_seconds=_WINDOW_S, requests=0, errors=0)
    return {place: _measured(item, place[0], figures, idle, now) for place, item in endpoints.items()}


def _measured(
    item: Manifest, namespace: str, figures: Mapping[_Place, EndpointTraffic], idle: EndpointTraffic, now: float
) -> Manifest:
    replica = text_at(item, "spec", "replica", "name")
    if not replica or endpoint_traffic(item, now) is not None:
        return item
    found = msgspec.structs.replace(figures.get((namespace, replica), idle), revision=labels_of(item).get(REVISION))
    return {**item, "status": {**mapping_at(item, "status"), "traffic": encode(found)}}
