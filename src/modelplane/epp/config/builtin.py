"""Every plugin type that comes with the picker."""

from functools import cache

from modelplane.epp.config import aliases
from modelplane.epp.flowcontrol import types as flow
from modelplane.epp.scheduling import admitters, declared, filters, handlers, pickers, pre_request, scorers
from modelplane.epp.scheduling.producers import types as memory
from modelplane.framework.registry import Registry


@cache
def builtin_registry() -> Registry:
    rooms = (filters, scorers, pickers, handlers, admitters, pre_request, memory, flow, aliases, declared)
    return Registry(each for room in rooms for each in room.TYPES)
