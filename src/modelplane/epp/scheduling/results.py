"""From the results of profiles to a decision; what profile handlers share.

Where no endpoint is left: a refusal that may pass by itself (load) is 429, one that will not (a role, a label, a
subset) is 503, and endpoints that serve other models only are 404.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import OtherModel, Outcome
from modelplane.framework import Result, RunOutcome, Scored

Others = tuple[tuple[str, tuple[Endpoint, ...]], ...]
Headers = tuple[tuple[str, str], ...]

_PICKED: Final = Outcome.PICKED
_RAN: Final = RunOutcome.PICKED
_ENDS: Final = {
    RunOutcome.NOTHING_OFFERED: Outcome.NO_ENDPOINTS,
    RunOutcome.ALL_UNSCHEDULABLE: Outcome.SATURATED,
    RunOutcome.ALL_UNRESOLVABLE: Outcome.EXCLUDED,
}


def decision_from(profile: str, result: Result[Endpoint], others: Others = (), headers: Headers = ()) -> Decision:
    """The decision where `profile` is the primary one."""
    if result.outcome is _RAN:
        ranked = result.ranked
        best = ((ranked[0].candidate,),) if len(ranked) == 1 else groups(ranked)
        return Decision(_PICKED, best, profile, others, headers)
    outcome = _ENDS[result.outcome]
    if outcome is Outcome.EXCLUDED and result.refusals and isinstance(result.refusals[-1], OtherModel):
        outcome = Outcome.UNKNOWN_MODEL
    return Decision(outcome, profile=profile, why=why(profile, result))


def picked_of(decision: Decision) -> Endpoint:
    """`Decision.picked` without a property call, for the request path."""
    return decision.groups[0][0]


def destinations_of(decision: Decision) -> str:
    """`Decision.destinations`, as above: nearly always one address."""
    groups_ = decision.groups
    if len(groups_) == 1 and len(groups_[0]) == 1 and not decision.addresses:
        return groups_[0][0].address
    return decision.destinations


def groups(ranked: Sequence[Scored[Endpoint]]) -> tuple[tuple[Endpoint, ...], ...]:
    """Neighbours with one total are one group."""
    return tuple(
        tuple(found.candidate for found in alike) for _, alike in groupby(ranked, key=lambda found: found.total)
    )


def picks(result: Result[Endpoint]) -> tuple[Endpoint, ...]:
    return tuple(found.candidate for found in result.ranked)


def why(profile: str, result: Result[Endpoint]) -> str:
    """One sentence for the client."""
    if result.outcome is RunOutcome.NOTHING_OFFERED:
        return "no endpoint is ready"
    reasons = "; ".join(f"{refusal.filter}: {refusal.reason}" for refusal in result.refusals)
    return f"profile {profile} admits no endpoint: {reasons}"
