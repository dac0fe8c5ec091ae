"""The plugin types that remember, by the names that configuration uses."""

from modelplane.epp.scheduling.producers import approx_producer, cold, in_flight, latency, precise_producer, sessions

TYPES = (
    *approx_producer.TYPES,
    *precise_producer.TYPES,
    *in_flight.TYPES,
    *cold.TYPES,
    *sessions.TYPES,
    *latency.TYPES,
)
