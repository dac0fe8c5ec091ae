"""Every plugin type that comes with the picker."""

from functools import cache

from modelplane.picker import declared
from modelplane.picker.catalogue import Catalogue
from modelplane.picker.handlers import single
from modelplane.picker.pickers import max_score
from modelplane.picker.scorers import kv_use, prefix_cache, queue, running

_MODULES = (
    single,
    max_score,
    queue,
    running,
    kv_use,
    prefix_cache,
    declared,
)


@cache
def catalogue() -> Catalogue:
    return Catalogue(each for module in _MODULES for each in module.TYPES)
