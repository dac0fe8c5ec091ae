"""Scorers: how good each endpoint is for a request, in [0, 1]. None imports another."""

from modelplane.epp.scheduling.scorers import (
    active_requests,
    attribute,
    context_length,
    cost,
    header_label,
    inert,
    kv_cache_utilization,
    latency,
    load_aware,
    lora,
    prefix_cache,
    queue,
    running,
    token_load,
    topology,
)

TYPES = (
    *active_requests.TYPES,
    *attribute.TYPES,
    *context_length.TYPES,
    *cost.TYPES,
    *header_label.TYPES,
    *inert.TYPES,
    *kv_cache_utilization.TYPES,
    *latency.TYPES,
    *load_aware.TYPES,
    *lora.TYPES,
    *prefix_cache.TYPES,
    *queue.TYPES,
    *running.TYPES,
    *token_load.TYPES,
    *topology.TYPES,
)
