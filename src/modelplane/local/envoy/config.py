"""Everything one Envoy is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelplane.local.envoy.listeners import GATEWAY_HEADER, ROUTES_NAME
from modelplane.local.envoy.view import Problem, Resource


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """Everything Envoy is told, by name, and what could not be told it."""

    listeners: Mapping[str, Resource]
    clusters: Mapping[str, Resource]
    virtual_hosts: Mapping[str, Resource]
    problems: tuple[Problem, ...] = ()

    def resources(self) -> Iterator[Resource]:
        """All of them."""
        for table in (self.listeners, self.clusters, self.virtual_hosts):
            yield from table.values()

    def addresses(self) -> set[tuple[str, int]]:
        """Where Envoy listens."""
        return {
            (socket["address"], socket["port_value"])
            for listener in self.listeners.values()
            if isinstance(address := listener.get("address"), dict)
            for socket in address.values()
        }

    def route_table(self) -> Resource:
        return {
            "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            "name": ROUTES_NAME,
            "vhost_header": GATEWAY_HEADER,
            "request_headers_to_remove": [GATEWAY_HEADER],
            "virtual_hosts": list(self.virtual_hosts.values()),
        }


EMPTY = EnvoyConfig({}, {}, {})
