"""Every plugin type that comes with the picker."""

from functools import cache

from modelplane.picker import declared
from modelplane.picker.admitters import probabilistic
from modelplane.picker.catalogue import Catalogue
from modelplane.picker.filters import (
    accelerator,
    adapters,
    detectors,
    failing,
    labels,
    prefix_affinity,
    roles,
    testing_header,
    utilization,
)
from modelplane.picker.filters import attribute as attribute_filter
from modelplane.picker.filters import topology as topology_filter
from modelplane.picker.flow import types as flow
from modelplane.picker.handlers import data_parallel, deciders, disaggregated, header, shadow, single
from modelplane.picker.memory import approx_producer
from modelplane.picker.pickers import max_score, random, weighted_random
from modelplane.picker.scorers import (
    active_requests,
    attribute,
    context_length,
    cost,
    header_label,
    kv_use,
    load_aware,
    lora,
    prefix_cache,
    queue,
    running,
    token_load,
    topology,
)

_FILTERS = (
    accelerator,
    adapters,
    attribute_filter,
    detectors,
    failing,
    labels,
    prefix_affinity,
    roles,
    testing_header,
    topology_filter,
    utilization,
)
_SCORERS = (
    active_requests,
    attribute,
    context_length,
    cost,
    header_label,
    kv_use,
    load_aware,
    lora,
    prefix_cache,
    queue,
    running,
    token_load,
    topology,
)
_PICKERS = (max_score, random, weighted_random)
_HANDLERS = (data_parallel, deciders, disaggregated, header, shadow, single)
_MEMORY = (approx_producer,)


@cache
def catalogue() -> Catalogue:
    modules = (*_FILTERS, *_SCORERS, *_PICKERS, *_HANDLERS, *_MEMORY, probabilistic, flow, declared)
    return Catalogue(each for module in modules for each in module.TYPES)
