"""Shadow profiles.

Another handler decides, then the shadow profiles run on the same request, and their picks are logged with the decision.
They run last, so that they cannot affect the decision, not even by random numbers.
"""

from collections.abc import Sequence

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.plugins import ProfileHandler, ProfilesValidator
from modelplane.epp.scheduling.results import decision_from, picks
from modelplane.framework.registry import Handle, Parameters, linked_type


class ShadowParameters(Parameters, frozen=True):
    shadows: tuple[str, ...]
    """Profiles that never change a decision."""
    handler: str = ""
    """The plugin that decides; without one, the profile that is left does."""


class _OneProfile:
    """Decides by the only profile."""

    name = ""
    """Nobody reads the name of a part of another handler."""

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        return () if len(profiles) == 1 else (f"leaves {len(profiles)} profiles that are no shadows; set handler",)

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        return () if context.results else tuple(profiles)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        ((profile, result),) = context.results.items()
        return decision_from(profile, result)


class ShadowHandler:
    def __init__(self, name: str, inner: ProfileHandler, shadows: frozenset[str]) -> None:
        self.name = name
        self.shadow_profiles = shadows
        self._inner = inner
        self._visible: Profiles = {}
        self._of: Profiles | None = None

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        missing = [f"needs a profile {shadow}" for shadow in sorted(self.shadow_profiles.difference(profiles))]
        visible = [profile for profile in profiles if profile not in self.shadow_profiles]
        inner = self._inner.validate_profiles(visible) if isinstance(self._inner, ProfilesValidator) else ()
        return [*missing, *inner]

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        if not self.shadow_profiles.isdisjoint(context.results):
            return ()
        if profiles is not self._of:
            self._of = profiles
            self._visible = {name: profile for name, profile in profiles.items() if name not in self.shadow_profiles}
        return self._inner.pick_profiles(context, self._visible) or sorted(self.shadow_profiles)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        shadowed = {name: context.results.pop(name) for name in sorted(self.shadow_profiles)}
        decision = self._inner.process_results(context)
        context.results.update(shadowed)
        return decision.changed(shadows=tuple((name, picks(result)) for name, result in shadowed.items()))


def make(name: str, parameters: ShadowParameters, handle: Handle) -> ShadowHandler:
    if not parameters.shadows:
        raise InputError("shadows is empty; list at least one profile")
    inner = handle.plugin(parameters.handler) if parameters.handler else _OneProfile()
    if not isinstance(inner, ProfileHandler):
        raise InputError(f"refers to {parameters.handler} as a profile handler, which it is not")
    return ShadowHandler(name, inner, frozenset(parameters.shadows))


TYPES = (linked_type("shadow-profile-handler", make, ShadowParameters),)
