"""How long plugins take, by extension point.

Plugins are timed by wrapping them: a scheduler of wrapped plugins does the work for a sample of the calls, and the
others run the plugins themselves. Some methods are called once for each endpoint, so the time of a plugin is added up
over a call of the scheduler and observed once.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Final, Protocol, TypeVar, cast

from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Profile, Weighted


class NamedPlugin(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=NamedPlugin)

EXTENSION_POINTS: Final = {
    "pick_profiles": "ProfilePicker",
    "process_results": "ProcessProfilesResults",
    "produce": "DataProducer",
    "admit": "Admission",
    "refuse": "Filter",
    "narrow": "Filter",
    "score": "Scorer",
    "read": "Scorer",
    "relative_score": "Scorer",
    "pick": "Picker",
    "order": "Picker",
    "take": "Picker",
    "pre_request": "PreRequest",
    "response_headers": "ResponseHeaders",
    "response_received": "ResponseReceived",
    "response_complete": "ResponseComplete",
}
"""The extension point of a method, by llm-d's name where it has one."""
_UNTIMED: Final = ("capture", "restore", "reads_bodies", "shadow_profiles")


class _Stopwatch:
    """The time of one plugin at one extension point since it was observed last."""

    __slots__ = ("called", "plugin", "point", "spent_s")

    def __init__(self, point: str, plugin: str) -> None:
        self.point = point
        self.plugin = plugin
        self.called = False
        self.spent_s = 0.0


class PluginTimer:
    """`observe` gets the extension point, the plugin's name and the seconds."""

    __slots__ = ("_clock", "_observe", "_stopwatches")

    def __init__(self, observe: Callable[[str, str, float], None], clock: Callable[[], float]) -> None:
        self._observe = observe
        self._clock = clock
        self._stopwatches: dict[tuple[str, str], _Stopwatch] = {}

    def assembly(self, built: Assembly) -> Assembly:
        """The same plugins, timed. They share what they keep with those that are not."""
        profiles = {name: self._profile(profile) for name, profile in built.profiles.items()}
        plugins = {
            name: self._wrap(cast("NamedPlugin", plugin)) if hasattr(plugin, "name") else plugin
            for name, plugin in built.plugins.items()
        }
        return Assembly(self._wrap(built.handler), profiles, plugins, built.made_from)

    def flush(self) -> None:
        """Observe what was called since the last time."""
        for each in self._stopwatches.values():
            if each.called:
                self._observe(each.point, each.plugin, each.spent_s)
                each.called, each.spent_s = False, 0.0

    def reset(self) -> None:
        """Forget what was not observed."""
        for each in self._stopwatches.values():
            each.called, each.spent_s = False, 0.0

    def _profile(self, profile: Profile[SchedulingContext, Endpoint]) -> Profile[SchedulingContext, Endpoint]:
        scorers = tuple(Weighted(self._wrap(each.scorer), each.weight) for each in profile.scorers)
        filters = tuple(self._wrap(each) for each in profile.filters)
        return Profile(profile.name, self._wrap(profile.picker), filters, scorers)

    def _wrap(self, plugin: P) -> P:
        found = SimpleNamespace(name=plugin.name)
        for method, point in EXTENSION_POINTS.items():
            call = getattr(plugin, method, None)
            if call is not None:
                setattr(found, method, self._timed(call, self._stopwatch(point, plugin.name)))
        for name in _UNTIMED:
            if hasattr(plugin, name):
                setattr(found, name, getattr(plugin, name))
        return cast("P", found)

    def _stopwatch(self, point: str, plugin: str) -> _Stopwatch:
        return self._stopwatches.setdefault((point, plugin), _Stopwatch(point, plugin))

    def _timed(self, call: Callable[..., object], stopwatch: _Stopwatch) -> Callable[..., object]:
        clock = self._clock

        def timed(*arguments: object) -> object:
            began_s = clock()
            try:
                return call(*arguments)
            finally:
                stopwatch.called = True
                stopwatch.spent_s += clock() - began_s

        return timed
