"""From the results of profiles to a decision; what handlers share.

Nothing admitted is never one thing. If a refusal may pass by itself (load), the client is told to come back: 429. If
none will (a role, a label, a subset), it is told that nobody serves this: 503. If what is left by then serves other
models only, the model is not to be had here: 404.
"""

from collections.abc import Sequence
from itertools import groupby

from modelplane.epp.scheduling.decisions import Decision, OtherModel, Outcome
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Result, RunOutcome, Scored

Others = tuple[tuple[str, tuple[Endpoint, ...]], ...]
Headers = tuple[tuple[str, str], ...]


_ENDS = {
    RunOutcome.NOTHING_OFFERED: Outcome.NO_ENDPOINTS,
    RunOutcome.ALL_UNSCHEDULABLE: Outcome.SATURATED,
    RunOutcome.ALL_UNRESOLVABLE: Outcome.EXCLUDED,
}


def decision_from(profile: str, result: Result[Endpoint], others: Others = (), headers: Headers = ()) -> Decision:
    """The decision where `profile` is the primary one."""
    if result.outcome is RunOutcome.PICKED:
        ranked = result.ranked
        best = ((ranked[0].candidate,),) if len(ranked) == 1 else groups(ranked)
        return Decision(Outcome.PICKED, best, profile, others, headers)
    outcome = _ENDS[result.outcome]
    if outcome is Outcome.EXCLUDED and result.refusals and isinstance(result.refusals[-1], OtherModel):
        outcome = Outcome.UNKNOWN_MODEL
    return Decision(outcome, profile=profile, why=why(profile, result))


def picked_of(decision: Decision) -> Endpoint:
    """`Decision.picked`, for those who ask for it with every request."""
    return decision.groups[0][0]


def destinations_of(decision: Decision) -> str:
    """`Decision.destinations`, as above: nearly always the address of one endpoint."""
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
    told = "; ".join(f"{refusal.filter}: {refusal.reason}" for refusal in result.refusals)
    return f"profile {profile} admits no endpoint: {told}"
