"""The configuration of one Envoy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from modelplane.envoy.listeners import GATEWAY_HEADER, ROUTES_NAME
from modelplane.envoy.view import GatewayProblem, Resource

Place = tuple[str, int]
"""A host and a port."""
XdsResource = Resource | bytes
"""A resource, or its JSON: at fleet size a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """The configuration of Envoy, by name, and problems found while rendering it.

    places: addresses of listeners that are given as text.
    """

    listeners: Mapping[str, XdsResource]
    clusters: Mapping[str, XdsResource]
    virtual_hosts: Mapping[str, XdsResource]
    problems: tuple[GatewayProblem, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)

    def place_of(self, listener: str) -> object:
        """Where a listener listens; equal for those that cannot both be there."""
        known = self.places.get(listener)
        return known if known is not None else _place(self.listeners[listener])

    def addresses(self) -> set[Place]:
        """Where Envoy listens."""
        found = map(self.place_of, self.listeners)
        return {place for place in found if isinstance(place, tuple)}

    def route_table(self) -> Resource:
        """All but its virtual hosts."""
        return {
            "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            "name": ROUTES_NAME,
            "vhost_header": GATEWAY_HEADER,
            "request_headers_to_remove": [GATEWAY_HEADER],
        }


EMPTY = EnvoyConfig({}, {}, {})


def _place(listener: XdsResource) -> object:
    resource = msgspec.json.decode(listener, type=Resource) if isinstance(listener, bytes) else listener
    address = resource.get("address")
    socket = address.get("socket_address") if isinstance(address, dict) else None
    return (socket["address"], socket["port_value"]) if isinstance(socket, dict) else str(address)
