"""The configuration of one Envoy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from modelplane.envoy.listeners import GATEWAY_HEADER, ROUTES_NAME
from modelplane.envoy.view import GatewayProblem, Resource

SocketAddress = tuple[str, int]
"""A host and a port."""
XdsResource = Resource | bytes
"""A resource, or its JSON: at fleet size a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """The configuration of Envoy, by name, and problems found while rendering it.

    listener_addresses: addresses of listeners that are given as text.
    """

    listeners: Mapping[str, XdsResource]
    clusters: Mapping[str, XdsResource]
    virtual_hosts: Mapping[str, XdsResource]
    problems: tuple[GatewayProblem, ...] = ()
    listener_addresses: Mapping[str, SocketAddress] = field(default_factory=dict)

    def address_of(self, listener: str) -> object:
        """The address of a listener; equal for listeners that conflict."""
        known = self.listener_addresses.get(listener)
        return known if known is not None else _address(self.listeners[listener])

    def addresses(self) -> set[SocketAddress]:
        """The addresses that Envoy listens on."""
        found = map(self.address_of, self.listeners)
        return {address for address in found if isinstance(address, tuple)}

    def route_table(self) -> Resource:
        """All but its virtual hosts."""
        return {
            "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            "name": ROUTES_NAME,
            "vhost_header": GATEWAY_HEADER,
            "request_headers_to_remove": [GATEWAY_HEADER],
        }


EMPTY = EnvoyConfig({}, {}, {})


def _address(listener: XdsResource) -> object:
    resource = msgspec.json.decode(listener, type=Resource) if isinstance(listener, bytes) else listener
    address = resource.get("address")
    socket = address.get("socket_address") if isinstance(address, dict) else None
    return (socket["address"], socket["port_value"]) if isinstance(socket, dict) else str(address)
