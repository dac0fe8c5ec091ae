"""The one profile, once."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.results import decision_from
from modelplane.framework.registry import NoParameters, plugin_type


class SingleProfileHandler:
    __slots__ = ("name",)

    def __init__(self, name: str, _parameters: NoParameters) -> None:
        self.name = name

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        if len(profiles) == 1:
            return ()
        return (f"runs exactly one profile, and there are {len(profiles)} ({', '.join(profiles)})",)

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        return () if context.results else tuple(profiles)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        ((profile, result),) = context.results.items()
        return decision_from(profile, result)


TYPES = (plugin_type("single-profile-handler", SingleProfileHandler, NoParameters),)
