"""The URLs of an endpoint's pages."""

import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from modelplane.epp.scheduling.endpoints import Endpoint


class ScrapeTarget(msgspec.Struct, frozen=True):
    """The URL of a page. `tls` is set for https."""

    host: str
    port: int
    path: str = ""
    """Empty: where the endpoint's engine has its metrics."""
    tls: ssl.SSLContext | None = None

    @property
    def request(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = f"GET {self.path or '/metrics'} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
        return f"{head}Accept: text/plain;version=0.0.4\r\nUser-Agent: modelplane\r\n\r\n".encode()


TargetOf = Callable[[Endpoint], ScrapeTarget | None]
"""None: its address cannot be read, and it is left alone."""

METRICS_HOST: Final = "metricsAddress"
"""A label with the metrics URL of an endpoint; empty: there is none."""
METRICS_PORT: Final = "metricsPort"


def page_of(endpoint: Endpoint) -> ScrapeTarget | None:
    """The metrics page: at the serving address, or at the URL in the labels."""
    host, _, port = endpoint.address.rpartition(":")
    host = endpoint.labels.get(METRICS_HOST, host).strip("[]")
    port = endpoint.labels.get(METRICS_PORT, port)
    return ScrapeTarget(host, int(port)) if host and port.isdecimal() else None


def models_of(endpoint: Endpoint) -> ScrapeTarget | None:
    """The list of models: where the endpoint serves."""
    host, _, port = endpoint.address.rpartition(":")
    return ScrapeTarget(host.strip("[]"), int(port), "/v1/models") if host and port.isdecimal() else None
