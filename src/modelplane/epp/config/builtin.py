"""Every plugin type that comes with the picker."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from modelplane.epp.config import aliases
from modelplane.epp.flowcontrol import types as flow
from modelplane.epp.flowcontrol.fairness import FairnessPolicy
from modelplane.epp.flowcontrol.ordering import OrderingPolicy
from modelplane.epp.flowcontrol.saturation import SaturationDetector
from modelplane.epp.flowcontrol.usage import UsageLimitPolicy
from modelplane.epp.scheduling import admitters, declared, filters, handlers, pickers, pre_request, scorers
from modelplane.epp.scheduling.plugins import DataSource, Parser
from modelplane.epp.scheduling.producers import types as memory
from modelplane.framework.registry import PluginType, Registry


@cache
def builtin_registry() -> Registry:
    rooms = (filters, scorers, pickers, handlers, admitters, pre_request, memory, flow, aliases, declared)
    return Registry(each for room in rooms for each in room.TYPES)


_READ_BY_NAME: Final = ("extractor", "discovery")
"""The components behind these know their types by name."""
_PROTOCOLS: Final[Mapping[str, type]] = {
    "parser": Parser,
    "source": DataSource,
    "detector": SaturationDetector,
    "fairness": FairnessPolicy,
    "ordering": OrderingPolicy,
    "usage limit": UsageLimitPolicy,
}
"""What a plugin of another package must be to serve as one of these."""


def unread_part(kind: PluginType) -> str:
    """What a type of another package says it serves as, where nothing would read it; else empty."""
    if kind.name in builtin_registry():
        return ""
    return next((part for part in _READ_BY_NAME if part in kind.parts), "")


def missing_protocol(kind: PluginType, plugin: object) -> str:
    """What an instance of another package's type must be and is not; else empty."""
    if kind.name in builtin_registry():
        return ""
    wanted = (protocol for part, protocol in _PROTOCOLS.items() if part in kind.parts)
    return next((protocol.__name__ for protocol in wanted if not isinstance(plugin, protocol)), "")
