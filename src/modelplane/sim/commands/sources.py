"""Commands for caches: sources that are slow or broken, and volumes that somebody emptied."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelplane.api.errors import InputError, NotFoundError
from modelplane.sim.cluster.loaders import BROKEN
from modelplane.sim.cluster.settings import SOURCES
from modelplane.sim.commands.command import SimCommand, SimulatedFleet, reachable, tenant_namespace


def slow_source(fleet: SimulatedFleet, command: SimCommand) -> str:
    """Loaders run only so much of the time."""
    if command.value != "off" and not (command.value.isdecimal() and int(command.value) > 0):
        raise InputError(f"{command.value!r} is not how many times slower; use a whole number or `off`")
    fleet.annotate(command.cluster_name, SOURCES, None if command.value == "off" else f"slow={command.value}")
    if command.value == "off":
        return f"caches are staged on {command.cluster} at the usual speed."
    return f"caches are staged on {command.cluster} {command.value} times slower."


def break_source(fleet: SimulatedFleet, command: SimCommand) -> str:
    if command.value != "off" and command.value not in BROKEN:
        raise InputError(f"{command.value!r} is no fault of a source; use one of {', '.join(BROKEN)}, or `off`")
    fleet.annotate(command.cluster_name, SOURCES, None if command.value == "off" else f"broken={command.value}")
    if command.value == "off":
        return f"sources answer on {command.cluster}; failed stagings begin again after their back-off."
    return f"new stagings on {command.cluster} end with {command.value}."


def empty_volume(fleet: SimulatedFleet, command: SimCommand) -> str:
    """`name` is the cache, with its namespace before a slash where that is not `default`."""
    namespace, _, name = command.name.rpartition("/")
    cluster = reachable(fleet, command)
    if not cluster.empty_volumes(tenant_namespace(cluster.api, command, namespace or "default"), name):
        raise NotFoundError(f"cluster {command.cluster} has no volume of ModelCache {command.name}")
    return f"the volume of {command.name} on {command.cluster} is empty; new pods start when it is staged again."


SOURCE_VERBS: Mapping[str, Callable[[SimulatedFleet, SimCommand], str]] = MappingProxyType(
    {"slow-source": slow_source, "break-source": break_source, "empty-volume": empty_volume}
)
