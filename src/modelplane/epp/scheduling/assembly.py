"""The plugin instances of a configuration, by their extension points."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from modelplane.epp.scheduling.context import Profiles
from modelplane.epp.scheduling.plugins import (
    Admitter,
    EndpointsChanged,
    PreRequest,
    Producer,
    ProfileHandler,
    ResponseComplete,
    ResponseHeaders,
    ResponseReceived,
)


class Assembly(msgspec.Struct, frozen=True, eq=False):
    """The plugins of one scheduler. Plugins keep state, so no two running schedulers share one."""

    handler: ProfileHandler
    profiles: Profiles
    plugins: Mapping[str, object]
    """Instances by name, in an order in which producers come after those whose data they read."""
    made_from: Mapping[str, tuple[str, msgspec.Struct]] = MappingProxyType({})
    """The type and the parameters of each instance."""

    def stateful(self, name: str, made_from: tuple[str, msgspec.Struct]) -> object | None:
        """The instance of this name, if it has this type and these parameters and keeps state; else None."""
        plugin = self.plugins.get(name)
        if self.made_from.get(name) != made_from or isinstance(plugin, ProfileHandler):
            return None
        return plugin if isinstance(plugin, Producer | PreRequest | ResponseComplete | EndpointsChanged) else None

    @property
    def producers(self) -> tuple[Producer, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, Producer))

    @property
    def admitters(self) -> tuple[Admitter, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, Admitter))

    @property
    def pre_request(self) -> tuple[PreRequest, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, PreRequest))

    @property
    def response_headers(self) -> tuple[ResponseHeaders, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, ResponseHeaders))

    @property
    def response_received(self) -> tuple[ResponseReceived, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, ResponseReceived))

    @property
    def response_complete(self) -> tuple[ResponseComplete, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, ResponseComplete))

    @property
    def endpoints_changed(self) -> tuple[EndpointsChanged, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, EndpointsChanged))
