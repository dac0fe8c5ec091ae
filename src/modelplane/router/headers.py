"""Names of headers that the router reads, sets or removes."""

from typing import Final

from modelplane.api.labels import REPLICA_HEADER
from modelplane.compose.endpoint_routes import ENDPOINT_HEADER, RESIDENCY_HEADER

ENDPOINT: Final = ENDPOINT_HEADER
"""Set by the router alone: the endpoint that it chose, which the gateway's routes match."""
RESIDENCY: Final = RESIDENCY_HEADER
"""From the client: where a request may be served."""
CALLER: Final = "x-modelplane-caller"
"""Who called, by a key that was checked."""
ATTEMPT: Final = "x-envoy-attempt-count"
"""Set by the gateway's first hop: 1, and one more at each retry."""
TIMEOUT: Final = "x-envoy-upstream-rq-timeout-ms"
"""Towards the gateway's inner hop: the time that is left for a further attempt."""
REQUEST_ID: Final = "x-request-id"
UNSERVED: Final = "x-modelplane-unserved"
"""On a gateway's own response to a request that no engine received."""
SERVED_BY: Final = "x-modelplane-served-by"
"""To the client: the endpoint that served."""
SESSION: Final = "x-session-id"
KEYS: Final = ("authorization", "x-api-key")
"""Where clients send their keys."""
INTERNAL: Final = (ENDPOINT, REPLICA_HEADER, "x-gateway-destination-endpoint")
"""Routing headers of the gateways, which no client sets."""
