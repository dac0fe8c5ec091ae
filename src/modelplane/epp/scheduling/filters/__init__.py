"""Filters: which endpoints may serve a request at all. None imports another."""

from modelplane.epp.scheduling.filters import (
    accelerator,
    adapters,
    attribute,
    detectors,
    failing,
    labels,
    prefix_affinity,
    roles,
    slo_headroom,
    testing_header,
    topology,
    utilization,
)

TYPES = (
    *accelerator.TYPES,
    *adapters.TYPES,
    *attribute.TYPES,
    *detectors.TYPES,
    *failing.TYPES,
    *labels.TYPES,
    *prefix_affinity.TYPES,
    *roles.TYPES,
    *slo_headroom.TYPES,
    *testing_header.TYPES,
    *topology.TYPES,
    *utilization.TYPES,
)
