"""What clusters report of their own load: numbers of whole pools, as attributes of the router's endpoints.

They come in the ecosystem's endpoints file (`endpoints: [{name, namespace, address, port, attributes}]`), which llm-d's
multicluster plugins use for discovery. An entry belongs to the ModelEndpoint of its name, or else to those at its
address: one cluster's gateway is the address of all its replicas. The scorers `multicluster-queue-scorer` and
`multicluster-kv-cache-utilization-scorer` read the same attributes.
"""

from collections.abc import Mapping
from typing import Final

from modelplane.epp.datalayer.discovery.endpoints_file import EndpointsDocument
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.router.catalog import FleetEndpoint

KV_CACHE_UTILIZATION: Final = "llm-d.ai/multicluster-kv-cache-utilization"
SATURATION: Final = "modelplane.ai/saturation"
"""How full the pool is by its own flow control; 1 is full."""


def saturation_of(endpoint: Endpoint) -> float:
    """How full an endpoint is, as its cluster reports it; 0 where it reports nothing."""
    attributes = endpoint.attributes
    if not attributes:
        return 0.0
    return max(attributes.get(SATURATION, 0.0), attributes.get(KV_CACHE_UTILIZATION, 0.0))


def apply_summaries(document: EndpointsDocument, endpoints: Mapping[str, FleetEndpoint]) -> int:
    """Gives endpoints the attributes that are reported for them; how many got some."""
    listed = [each for entries in document.entries.values() for each in entries]
    by_name = {each.name: each.attributes for each in listed}
    by_address = {each.address: each.attributes for each in listed}
    found = 0
    for key, endpoint in endpoints.items():
        attributes = by_name.get(key) or by_address.get(endpoint.candidate.address)
        endpoint.candidate.attributes = attributes or {}
        found += attributes is not None
    return found
