"""Profile handlers: which profiles run for a request, and what their results mean. None imports another."""

from modelplane.epp.scheduling.handlers import data_parallel, deciders, disaggregated, header, shadow, single

TYPES = (
    *data_parallel.TYPES,
    *deciders.TYPES,
    *disaggregated.TYPES,
    *header.TYPES,
    *shadow.TYPES,
    *single.TYPES,
)
