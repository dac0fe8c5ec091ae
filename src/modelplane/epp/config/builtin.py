"""Every plugin type that comes with the picker."""

from functools import cache
from typing import Final

from modelplane.epp.config import aliases
from modelplane.epp.flowcontrol import types as flow
from modelplane.epp.scheduling import admitters, declared, filters, handlers, pickers, pre_request, scorers
from modelplane.epp.scheduling.producers import types as memory
from modelplane.framework.registry import PluginType, Registry


@cache
def builtin_registry() -> Registry:
    rooms = (filters, scorers, pickers, handlers, admitters, pre_request, memory, flow, aliases, declared)
    return Registry(each for room in rooms for each in room.TYPES)


_READ_BY_NAME: Final = ("parser", "source", "extractor", "discovery")
"""The components behind these know their types by name."""


def unread_part(kind: PluginType) -> str:
    """What a type of another package says it serves as, where nothing would read it; else empty."""
    if kind.name in builtin_registry():
        return ""
    return next((part for part in _READ_BY_NAME if part in kind.parts), "")
