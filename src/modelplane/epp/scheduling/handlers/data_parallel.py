"""Endpoints that are ranks of one server: the proxy connects to the server's first port, a header names the rank."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from modelplane.epp.scheduling.context import Profiles, SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.headers import DATA_PARALLEL
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.results import decision_from
from modelplane.epp.scheduling.subsets import join, split
from modelplane.framework.registry import Parameters, plugin_type


class DataParallelParameters(Parameters, frozen=True):
    primary_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8000


class DataParallelHandler:
    __slots__ = ("_port", "name")

    def __init__(self, name: str, parameters: DataParallelParameters) -> None:
        self.name = name
        self._port = str(parameters.primary_port)

    def validate_profiles(self, profiles: Sequence[str], /) -> Sequence[str]:
        if len(profiles) == 1:
            return ()
        return (f"runs exactly one profile, and there are {len(profiles)} ({', '.join(profiles)})",)

    def pick_profiles(self, context: SchedulingContext, profiles: Profiles, /) -> Sequence[str]:
        return () if context.results else tuple(profiles)

    def process_results(self, context: SchedulingContext, /) -> Decision:
        ((profile, result),) = context.results.items()
        decision = decision_from(profile, result)
        if decision.outcome is not Outcome.PICKED:
            return decision
        hosts = [split(endpoint.address)[0] for group in decision.groups for endpoint in group]
        return decision.changed(
            set_headers=((DATA_PARALLEL, decision.picked.address),),
            addresses=tuple(join(host, self._port) for host in hosts),
        )


TYPES = (
    plugin_type(
        "data-parallel-profile-handler",
        DataParallelHandler,
        DataParallelParameters,
        replaced_by="one endpoint a port, which the pool's target ports give",
    ),
)
