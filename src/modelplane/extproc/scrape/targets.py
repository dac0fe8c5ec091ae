"""Where the pages of an endpoint are."""

from collections.abc import Callable
from typing import Final

from modelplane.extproc.scrape.connections import Target
from modelplane.picker.endpoints import Endpoint

Where = Callable[[Endpoint], Target | None]
"""None: its address cannot be read, and it is left alone."""

_METRICS_HOST: Final = "metricsAddress"
_METRICS_PORT: Final = "metricsPort"


def page_of(endpoint: Endpoint) -> Target | None:
    """The metrics: where the endpoint serves, or where its labels say that they are."""
    host, _, port = endpoint.address.rpartition(":")
    host = endpoint.labels.get(_METRICS_HOST, host).strip("[]")
    port = endpoint.labels.get(_METRICS_PORT, port)
    return Target(host, int(port)) if host and port.isdecimal() else None


def told_page_of(endpoint: Endpoint) -> Target | None:
    """The metrics, only where the endpoint's labels say where they are.

    For endpoints that are no servers of ours: the gateway of a cluster has no such page, and a provider is not asked.
    """
    return page_of(endpoint) if _METRICS_HOST in endpoint.labels or _METRICS_PORT in endpoint.labels else None


def models_of(endpoint: Endpoint) -> Target | None:
    """The list of models: where the endpoint serves."""
    host, _, port = endpoint.address.rpartition(":")
    return Target(host.strip("[]"), int(port), "/v1/models") if host and port.isdecimal() else None
