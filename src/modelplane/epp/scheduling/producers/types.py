"""The plugin types of the producers, by the names that configuration uses."""

from modelplane.epp.scheduling.producers import (
    approx_producer,
    in_flight,
    latency,
    no_hit_lru,
    no_hit_tokens,
    precise_producer,
    sessions,
)

TYPES = (
    *approx_producer.TYPES,
    *precise_producer.TYPES,
    *in_flight.TYPES,
    *no_hit_lru.TYPES,
    *no_hit_tokens.TYPES,
    *sessions.TYPES,
    *latency.TYPES,
)
