"""Names of headers that the picker sets, reads or removes.

Routing headers are written by the picker alone. Those that a client sends are overwritten or removed.
"""

from collections.abc import Iterable, Mapping
from typing import Final

DESTINATION: Final = "x-gateway-destination-endpoint"
DESTINATION_SUBSET: Final = "x-gateway-destination-endpoint-subset"
DESTINATION_SERVED: Final = "x-gateway-destination-endpoint-served"
DESTINATION_SCORES: Final = "x-gateway-destination-endpoint-scores"
PREFILLER: Final = "x-prefiller-host-port"
PREFILLER_URL: Final = "x-prefiller-url"
ENCODERS: Final = "x-encoder-hosts-ports"
DATA_PARALLEL: Final = "x-data-parallel-host-port"
CACHE_SOURCE: Final = "x-kv-cache-source-host-port"
PREFER: Final = "prefer"
IF_AVAILABLE: Final = "if-available"

ROUTING: Final = frozenset(
    (
        DESTINATION,
        DESTINATION_SUBSET,
        DESTINATION_SERVED,
        DESTINATION_SCORES,
        PREFILLER,
        PREFILLER_URL,
        ENCODERS,
        DATA_PARALLEL,
        CACHE_SOURCE,
    )
)


def spoofed_headers(headers: Mapping[str, str], written: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Routing headers of a client that the picker does not overwrite, sorted."""
    if ROUTING.isdisjoint(headers):
        return ()
    return tuple(sorted(ROUTING.intersection(headers).difference(name for name, _ in written)))
