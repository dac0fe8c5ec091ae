"""Why the replicas of a deployment are where they are: every candidate with its refusal or its scores."""

from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import Schedule, survey
from modelplane.placement.trace import CandidateVerdict, TraceCandidate
from modelplane.views.inputs import FleetManifests, key_text
from modelplane.views.plan import cache_sizes, plan_of
from modelplane.views.requests import request_of
from modelplane.views.shapes import CandidateShown, PlacementExplanation, ScoreRow


def explain(inputs: FleetManifests, name: str, namespace: str | None = None) -> PlacementExplanation:
    """Decides again on the same inputs, with every place judged as if one more replica were asked for."""
    fleet = inputs.fleet()
    request = request_of(inputs, inputs.deployment(name, namespace), fleet)
    decided = survey(request, fleet, inputs.now, profile=inputs.profile)
    after = fleet.with_replicas(
        [placement.replica for placement in decided.placements],
        [replica.id for replica in fleet.owned_by(request.deployment)],
    )
    planned = plan_of(request, decided, after, cache_sizes(inputs))
    candidates = decided.trace.candidates()
    return PlacementExplanation(
        deployment=key_text(request.deployment),
        replicas=request.replicas,
        pending=decided.pending,
        answer=planned.answer,
        summary=_summary(request.replicas, decided, candidates),
        rows=planned.rows,
        candidates=tuple(_shown(found) for found in candidates),
    )


def _summary(wanted: int, decided: Schedule, candidates: tuple[TraceCandidate, ...]) -> str:
    counted = {verdict: sum(found.verdict is verdict for found in candidates) for verdict in CandidateVerdict}
    moving = sum(placement.decision is ReplicaDecision.MOVING for placement in decided.placements)
    parts = [f"{len(decided.placements) - moving} of {wanted} replicas are placed"]
    if moving:
        parts.append(f"{moving} {'stays' if moving == 1 else 'stay'} until a successor serves")
    more, refused = counted[CandidateVerdict.ELIGIBLE], counted[CandidateVerdict.REFUSED]
    places, were = "place" if more == 1 else "places", "was" if refused == 1 else "were"
    parts.append(f"{more} other {places} could take one more, {refused} {were} refused")
    return "; ".join(parts)


def _shown(found: TraceCandidate) -> CandidateShown:
    return CandidateShown(
        cluster=found.cluster,
        pool=found.pool or "",
        engine=found.engine,
        verdict=found.verdict.value,
        filter=found.filter,
        reason=found.reason,
        may_pass=found.may_pass,
        score=found.score,
        scores=tuple(ScoreRow(name=name, value=round(value, 6)) for name, value in found.parts),
    )
