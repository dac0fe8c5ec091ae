"""The one profile, once."""

from collections.abc import Mapping, Sequence

from modelplane.epp.scheduling.conclusions import conclude
from modelplane.epp.scheduling.cycle import Cycle
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Profile
from modelplane.framework.registry import NoParameters, plugin_type


class SingleProfileHandler:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def objections(self, profiles: Sequence[str], /) -> Sequence[str]:
        if len(profiles) == 1:
            return ()
        return (f"runs exactly one profile, and there are {len(profiles)} ({', '.join(profiles)})",)

    def profiles(self, cycle: Cycle, profiles: Mapping[str, Profile[Cycle, Endpoint]], /) -> Sequence[str]:
        return () if cycle.results else tuple(profiles)

    def conclude(self, cycle: Cycle, /) -> Decision:
        ((profile, result),) = cycle.results.items()
        return conclude(profile, result)


TYPES = (plugin_type("single-profile-handler", SingleProfileHandler, NoParameters),)
