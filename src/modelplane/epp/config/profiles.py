"""The profiles of a configuration and their handler."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from modelplane.epp.config.fields import ConfigFields, ProfileFields, WeightedRef
from modelplane.epp.config.positions import ConfigProblem, ConfigProblems
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import ProfileHandler, ProfilesValidator
from modelplane.framework import Filter, Picker, Profile, Scorer, make_profile
from modelplane.framework.registry import PluginEntry

DEFAULT_PROFILE = "default"
DEFAULT_FILTERS = ("failing-endpoint-filter",)
DEFAULT_SCORERS = (("active-request-scorer", 5.0), ("prefix-cache-scorer", 4.0), ("no-hit-tokens-scorer", 2.0))
DEFAULT_PARAMETERS = {"active-request-scorer": {"minScaleRequests": 16, "maxScaleRequests": 48}}
"""A prompt stays with its prefix until another endpoint has a quarter as many requests and 12 fewer, or 35 fewer, by
what this picker itself sent; a prompt that nobody has cached goes where the fewest tokens of such prompts went.
docs/benchmarks/gpu.md compares it with the ecosystem's scorers.
"""
DEFAULT_PICKER = "max-score-picker"
SINGLE_HANDLER = "single-profile-handler"


class ProfilePlan(msgspec.Struct, frozen=True):
    """A profile by the names of its plugins."""

    name: str
    filters: tuple[str, ...]
    scorers: tuple[tuple[str, float], ...]
    picker: str

    def build(self, instances: Mapping[str, object]) -> Profile[SchedulingContext, Endpoint]:
        weights = dict(self.scorers)
        names = dict.fromkeys((*self.filters, *weights, self.picker))
        return make_profile(self.name, (((name, instances[name]), weights.get(name)) for name in names))


class Profiles:
    """Profiles as written, completed with what is left to defaults."""

    def __init__(
        self,
        fields: ConfigFields,
        instances: Mapping[str, object],
        places: ConfigProblems,
        problems: list[ConfigProblem],
    ) -> None:
        self._profiles = tuple(fields.scheduling_profiles or ())
        self._nothing_given = not fields.plugins and not self._profiles
        self._instances = instances
        self._places = places
        self._problems = problems
        self.warnings: list[ConfigProblem] = []
        self.used: set[str] = set()
        """Names of plugins, including those that defaults add."""

    def plans(self) -> tuple[ProfilePlan, ...]:
        if self._nothing_given:
            plans: tuple[ProfilePlan, ...] = (
                ProfilePlan(DEFAULT_PROFILE, DEFAULT_FILTERS, DEFAULT_SCORERS, DEFAULT_PICKER),
            )
        elif not self._profiles:
            plans = (self._everything(),)
        else:
            self._check_names()
            plans = tuple(self._plan(at, profile) for at, profile in enumerate(self._profiles))
        for plan in plans:
            self.used.update((*plan.filters, *(name for name, _ in plan.scorers), plan.picker))
        return plans

    def handler(self, plans: Sequence[ProfilePlan], entries: Sequence[PluginEntry], referred: AbstractSet[str]) -> str:
        """The one handler: that which is listed and which no other plugin refers to, else the single one."""
        handlers = [
            entry
            for entry in entries
            if isinstance(self._instances[entry.name], ProfileHandler) and entry.name not in referred
        ]
        for extra in handlers[1:]:
            self._wrong(("plugins", extra.at), f"{extra.name} is a second profile handler, after {handlers[0].name}")
        if handlers:
            self._check_handler(handlers[0], plans)
            return handlers[0].name
        if len(plans) > 1:
            names = ", ".join(plan.name for plan in plans)
            self._wrong(("schedulingProfiles",), f"there are several profiles ({names}) and no profile handler")
        return SINGLE_HANDLER

    def _check_handler(self, entry: PluginEntry, plans: Sequence[ProfilePlan]) -> None:
        handler = self._instances[entry.name]
        if isinstance(handler, ProfilesValidator):
            for objection in handler.validate_profiles([plan.name for plan in plans]):
                self._wrong(("plugins", entry.at), f"{entry.name} {objection}")

    def _check_names(self) -> None:
        names: set[str] = set()
        for at, profile in enumerate(self._profiles):
            if not profile.name:
                self._wrong(("schedulingProfiles", at, "name"), "is required")
            elif profile.name in names:
                self._wrong(("schedulingProfiles", at, "name"), f"profile {profile.name} is listed twice")
            names.add(profile.name)

    def _everything(self) -> ProfilePlan:
        parts = {name: found for name, found in self._instances.items() if isinstance(found, Filter | Scorer | Picker)}
        pickers = [name for name, found in parts.items() if isinstance(found, Picker)]
        if len(pickers) > 1:
            self._wrong(("plugins",), _too_many(DEFAULT_PROFILE, pickers))
        return ProfilePlan(
            DEFAULT_PROFILE,
            tuple(name for name, found in parts.items() if isinstance(found, Filter)),
            tuple((name, 1.0) for name, found in parts.items() if isinstance(found, Scorer)),
            pickers[0] if pickers else DEFAULT_PICKER,
        )

    def _plan(self, at: int, profile: ProfileFields) -> ProfilePlan:
        filters: list[str] = []
        scorers: list[tuple[str, float]] = []
        pickers: list[str] = []
        for index, ref in enumerate(profile.plugins or ()):
            path = ("schedulingProfiles", at, "plugins", index)
            if not self._is_known(path, ref, profile):
                continue
            plugin = self._instances[ref.plugin_ref]
            if isinstance(plugin, Filter):
                filters.append(ref.plugin_ref)
            if isinstance(plugin, Scorer):
                scorers.append((ref.plugin_ref, 1.0 if ref.weight is None else ref.weight))
            if isinstance(plugin, Picker):
                pickers.append(ref.plugin_ref)
        picker = self._picker(at, profile, pickers)
        return ProfilePlan(profile.name, tuple(filters), tuple(scorers), picker)

    def _is_known(self, path: tuple[str | int, ...], ref: WeightedRef, profile: ProfileFields) -> bool:
        name = ref.plugin_ref
        instances = self._instances
        field = (*path, "pluginRef")
        if not name:
            self._wrong(field, "is required")
        elif name not in instances:
            self._wrong(field, f"no plugin is named {name}")
        elif next(other for other in profile.plugins or () if other.plugin_ref == name) is not ref:
            self._wrong(field, f"{name} is listed twice in profile {profile.name}")
        elif not isinstance(instances[name], Filter | Scorer | Picker):
            sentence = f"{name} is neither a filter, a scorer nor a picker, and does nothing in a profile"
            self.warnings.append(self._places.find(field, sentence))
        else:
            self._check_weight((*path, "weight"), ref, instances[name])
            return True
        return False

    def _check_weight(self, path: tuple[str | int, ...], ref: WeightedRef, plugin: object) -> None:
        if ref.weight is None:
            return
        if not isinstance(plugin, Scorer):
            self._wrong(path, f"{ref.plugin_ref} is no scorer and takes no weight")
        elif not 0.0 <= ref.weight < float("inf"):
            self._wrong(path, f"the weight of {ref.plugin_ref} is {ref.weight}; it must be a number of at least 0")

    def _picker(self, at: int, profile: ProfileFields, pickers: Sequence[str]) -> str:
        if len(pickers) > 1:
            self._wrong(("schedulingProfiles", at, "plugins"), _too_many(profile.name, pickers))
        if pickers:
            return pickers[0]
        return next((name for name, plugin in self._instances.items() if isinstance(plugin, Picker)), DEFAULT_PICKER)

    def _wrong(self, path: tuple[str | int, ...], sentence: str) -> None:
        self._problems.append(self._places.find(path, sentence))


def _too_many(profile: str, pickers: Sequence[str]) -> str:
    return f"profile {profile}: exactly one picker is needed, there are {len(pickers)} ({', '.join(pickers)})"
