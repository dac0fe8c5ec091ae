"""Plugin types of other packages, found by their Python entry points.

A package that brings plugins names them in the group `modelplane.epp.scheduling`:

    [project.entry-points."modelplane.epp.scheduling"]
    my-plugins = "my_package.plugins:TYPES"

Behind the name is a `PluginType`, or several of them. What cannot be loaded is an error that names the entry point: a
picker that silently lacks a plugin decides otherwise than its configuration says.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from modelplane.api.errors import InputError
from modelplane.epp.config.builtin import catalogue
from modelplane.epp.scheduling.catalogue import Catalogue, PluginType

GROUP = "modelplane.epp.scheduling"


def full_catalogue() -> Catalogue:
    """The types that come with the picker, and those of other packages."""
    return catalogue().extended(load_types(entry_points(group=GROUP)))


def load_types(points: Iterable[EntryPoint]) -> list[PluginType]:
    return [each for point in sorted(points, key=lambda point: point.name) for each in _loaded(point)]


def _loaded(point: EntryPoint) -> list[PluginType]:
    try:
        found = point.load()
    except Exception as error:
        raise InputError(f"entry point {point.name} ({point.value}): {type(error).__name__}: {error}") from error
    types = [found] if isinstance(found, PluginType) else list(found) if isinstance(found, Iterable) else []
    if not types or not all(isinstance(each, PluginType) for each in types):
        raise InputError(f"entry point {point.name} ({point.value}) is neither a PluginType nor several of them")
    return types
