"""Profiles that watch.

Another handler decides, then these run on the same request, and what they would have picked stands beside the decision
for the log. They run last, so that nothing of theirs, chance included, reaches the decision.
"""

from collections.abc import Mapping, Sequence

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.scheduling.conclusions import conclude, picks
from modelplane.epp.scheduling.cycle import Cycle
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import ChecksProfiles, ProfileHandler
from modelplane.framework import Profile
from modelplane.framework.registry import Handle, Parameters, linked_type


class ShadowParameters(Parameters, frozen=True):
    shadows: tuple[str, ...]
    """Profiles that only watch."""
    handler: str = ""
    """The plugin that decides; without one, the profile that is left does."""


class _OneProfile:
    """Decides by the only profile."""

    name = "the profile that decides"

    def objections(self, profiles: Sequence[str], /) -> Sequence[str]:
        return () if len(profiles) == 1 else (f"leaves {len(profiles)} profiles to decide; name a handler for them",)

    def profiles(self, cycle: Cycle, profiles: Mapping[str, Profile[Cycle, Endpoint]], /) -> Sequence[str]:
        return () if cycle.results else tuple(profiles)

    def conclude(self, cycle: Cycle, /) -> Decision:
        ((profile, result),) = cycle.results.items()
        return conclude(profile, result)


class ShadowHandler:
    def __init__(self, name: str, inner: ProfileHandler, shadows: frozenset[str]) -> None:
        self.name = name
        self.shadows = shadows
        self._inner = inner
        self._visible: Mapping[str, Profile[Cycle, Endpoint]] = {}
        self._of: Mapping[str, Profile[Cycle, Endpoint]] | None = None

    def objections(self, profiles: Sequence[str], /) -> Sequence[str]:
        missing = [f"needs a profile {shadow}" for shadow in sorted(self.shadows.difference(profiles))]
        visible = [profile for profile in profiles if profile not in self.shadows]
        inner = self._inner.objections(visible) if isinstance(self._inner, ChecksProfiles) else ()
        return [*missing, *inner]

    def profiles(self, cycle: Cycle, profiles: Mapping[str, Profile[Cycle, Endpoint]], /) -> Sequence[str]:
        if not self.shadows.isdisjoint(cycle.results):
            return ()
        if profiles is not self._of:
            self._of = profiles
            self._visible = {name: profile for name, profile in profiles.items() if name not in self.shadows}
        return self._inner.profiles(cycle, self._visible) or sorted(self.shadows)

    def conclude(self, cycle: Cycle, /) -> Decision:
        watched = {name: cycle.results.pop(name) for name in sorted(self.shadows) if name in cycle.results}
        decision = self._inner.conclude(cycle)
        cycle.results.update(watched)
        return msgspec.structs.replace(
            decision, shadows=tuple((name, picks(result)) for name, result in watched.items())
        )


def make(name: str, parameters: ShadowParameters, handle: Handle) -> ShadowHandler:
    if not parameters.shadows:
        raise InputError("shadows is empty: nothing would watch")
    inner = handle.plugin(parameters.handler) if parameters.handler else _OneProfile()
    if not isinstance(inner, ProfileHandler):
        raise InputError(f"refers to {parameters.handler} as a profile handler, which it is not")
    return ShadowHandler(name, inner, frozenset(parameters.shadows))


TYPES = (linked_type("shadow-profile-handler", make, ShadowParameters),)
