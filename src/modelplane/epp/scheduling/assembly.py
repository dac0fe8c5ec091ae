"""What a configuration comes to: instances of plugins, each known for what it can do."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from modelplane.epp.scheduling.cycle import Cycle
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import (
    Admitter,
    ClientTeller,
    FirstByteListener,
    PickListener,
    PoolListener,
    Producer,
    ProfileHandler,
    ResponseListener,
)
from modelplane.framework import Profile


class Assembly(msgspec.Struct, frozen=True, eq=False):
    """Everything one scheduler is made of. Plugins remember things, so no two schedulers at work share one."""

    handler: ProfileHandler
    profiles: Mapping[str, Profile[Cycle, Endpoint]]
    plugins: Mapping[str, object]
    """Instances by name, in an order in which producers come after those whose data they read."""
    made_from: Mapping[str, tuple[str, msgspec.Struct]] = MappingProxyType({})
    """The type and the parameters of each instance."""

    def remembering(self, name: str, made_from: tuple[str, msgspec.Struct]) -> object | None:
        """The instance of this name, if it was made of just this and remembers things; else None."""
        plugin = self.plugins.get(name)
        if self.made_from.get(name) != made_from or isinstance(plugin, ProfileHandler):
            return None
        return plugin if isinstance(plugin, Producer | PickListener | ResponseListener | PoolListener) else None

    @property
    def producers(self) -> tuple[Producer, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, Producer))

    @property
    def admitters(self) -> tuple[Admitter, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, Admitter))

    @property
    def pick_listeners(self) -> tuple[PickListener, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, PickListener))

    @property
    def client_tellers(self) -> tuple[ClientTeller, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, ClientTeller))

    @property
    def first_byte_listeners(self) -> tuple[FirstByteListener, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, FirstByteListener))

    @property
    def response_listeners(self) -> tuple[ResponseListener, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, ResponseListener))

    @property
    def pool_listeners(self) -> tuple[PoolListener, ...]:
        return tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, PoolListener))
