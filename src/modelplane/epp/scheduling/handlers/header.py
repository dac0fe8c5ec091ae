"""The profile that a header of the request names, or the default one. A name of no profile is the client's error."""

from collections.abc import Mapping, Sequence

from modelplane.epp.scheduling.conclusions import conclude
from modelplane.epp.scheduling.cycle import Cycle
from modelplane.epp.scheduling.decisions import Decision, Outcome
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Profile
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

    def objections(self, profiles: Sequence[str], /) -> Sequence[str]:
        if len(profiles) == 1 or self._default in profiles:
            return ()
        return (f"needs a profile {self._default}, for requests without the header {self._header}",)

    def profiles(self, cycle: Cycle, profiles: Mapping[str, Profile[Cycle, Endpoint]], /) -> Sequence[str]:
        if cycle.results:
            return ()
        if len(profiles) == 1:
            return tuple(profiles)
        name = self._named(cycle) or self._default
        return (name,) if name in profiles else ()

    def conclude(self, cycle: Cycle, /) -> Decision:
        if not cycle.results:
            return Decision(Outcome.MALFORMED, why=f"header {self._header}: there is no profile {self._named(cycle)}")
        ((profile, result),) = cycle.results.items()
        return conclude(profile, result)

    def _named(self, cycle: Cycle) -> str:
        return cycle.request.headers.get(self._header, "").strip()


TYPES = (plugin_type("header-profile-handler", HeaderProfileHandler, HeaderParameters),)
