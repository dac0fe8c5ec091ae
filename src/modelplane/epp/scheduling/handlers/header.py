"""The profile that a header of the request names, or the default one. A name of no profile is the client's error."""

from collections.abc import Sequence

from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.results import decision_from
from modelplane.framework.registry import Parameters, plugin_type


class HeaderParameters(Parameters, frozen=True):
    header_name: str = "EPP-Profile"
    default_profile: str = "decode"


class HeaderProfileHandler:
    __slots__ = ("_default", "_header", "name")

    def __init__(self, name: str, parameters: HeaderParameters) -> None:
        self.name = name
        self._header = parameters.header_name.strip().lower() or "epp-profile"
        self._default = parameters.default_profile.strip() or "decode"

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        if len(profiles) == 1 or self._default in profiles:
            return ()
        return (f"needs a profile {self._default}, for requests without the header {self._header}",)

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        if context.results:
            return ()
        if len(profiles) == 1:
            return tuple(profiles)
        name = self._named(context) or self._default
        return (name,) if name in profiles else ()

    def process_results(self, context: SchedulingContext, /) -> Decision:
        if not context.results:
            return Decision(Outcome.MALFORMED, why=f"header {self._header}: no profile is named {self._named(context)}")
        ((profile, result),) = context.results.items()
        return decision_from(profile, result)

    def _named(self, context: SchedulingContext) -> str:
        return context.request.headers.get(self._header, "").strip()


TYPES = (plugin_type("header-profile-handler", HeaderProfileHandler, HeaderParameters),)
