"""Plugin types of other packages, found by their Python entry points.

Both schedulers read theirs in one form, from a group of their own:

    [project.entry-points."modelplane.epp.plugins"]
    my-plugins = "my_package.plugins:TYPES"

The name refers to a `PluginType`, an iterable of them, or a function without arguments that returns either. An entry
point that cannot be loaded is an error that names it: a scheduler without a configured plugin would decide differently.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from modelplane.framework.faults import ProfileError
from modelplane.framework.registry import PluginType


def discover_types(*groups: str) -> list[PluginType]:
    """The plugin types of all installed packages in these groups, by the names of their entry points."""
    return load_types(point for group in groups for point in entry_points(group=group))


def load_types(points: Iterable[EntryPoint]) -> list[PluginType]:
    return [each for point in sorted(points, key=lambda point: point.name) for each in _load(point)]


def _load(point: EntryPoint) -> list[PluginType]:
    try:
        found = point.load()
        found = found() if callable(found) else found
        types = [found] if isinstance(found, PluginType) else list(found) if isinstance(found, Iterable) else []
    except Exception as error:
        raise ProfileError(f"entry point {point.name} ({point.value}): {type(error).__name__}: {error}") from error
    if not types or not all(isinstance(each, PluginType) for each in types):
        raise ProfileError(f"entry point {point.name} ({point.value}) is neither a PluginType nor several of them")
    return types
