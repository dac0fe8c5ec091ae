"""The URLs of an endpoint's pages."""

from collections.abc import Callable
from typing import Final

from modelplane.epp.datalayer.scrape.connections import ScrapeTarget
from modelplane.epp.scheduling.endpoints import Endpoint

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
