"""Why replicas are where they are, and why the rest waits: every candidate with its refusal or its scores.

The deployment is judged on the fleet that all deployments together would make, as `plan` makes it.
"""

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import name_of, namespace_of, text_at
from modelplane.placement.decisions import ReplicaDecision
from modelplane.placement.schedule import survey
from modelplane.placement.trace import CandidateVerdict, TraceCandidate
from modelplane.views.fleet_decisions import DeploymentDecision, decide_fleet
from modelplane.views.health import reported_health
from modelplane.views.inputs import FleetManifests, key_text
from modelplane.views.plan import deployment_plans
from modelplane.views.shapes import Action, CandidateShown, DeploymentPlan, PlacementExplanation, ScoreRow


def explain(inputs: FleetManifests, name: str, namespace: str | None = None) -> PlacementExplanation:
    """Decides again on the same inputs, with every place judged as if one more replica were requested."""
    deployment = inputs.deployment(name, namespace)
    decisions = decide_fleet(inputs, skip_unreadable=True)
    found = decisions.of(deployment.metadata.key)
    shown = key_text(deployment.metadata.key)
    planned = next(one for one in deployment_plans(inputs, decisions) if one.deployment == shown)
    surveyed = survey(found.request, decisions.fleet, inputs.now, profile=inputs.profile)
    candidates = _without_repeats(surveyed.trace.candidates())
    return PlacementExplanation(
        deployment=shown,
        replicas=found.request.replicas,
        pending=found.decided.pending,
        answer=planned.answer,
        summary=_summary(found, planned, candidates),
        state=reported_health(deployment.metadata, deployment.status).why if deployment.status.reason else "",
        rows=planned.rows,
        candidates=tuple(_shown(candidate) for candidate in candidates),
    )


def owner_of(inputs: FleetManifests, replica: str, namespace: str | None = None) -> tuple[str, str]:
    """Name and namespace of the deployment that a replica belongs to."""
    named = [one for one in inputs.replicas if name_of(one) == replica and namespace in {None, namespace_of(one)}]
    owners = {(text_at(one, "spec", "deployment", "name"), namespace_of(one)) for one in named}
    if len(owners) > 1:
        places = ", ".join(sorted(place for _, place in owners))
        raise InputError(f"several namespaces have a ModelReplica {replica} ({places}); say which with -n")
    if not owners:
        raise NotFoundError(f"there is no ModelReplica {replica}" + (f" in namespace {namespace}" if namespace else ""))
    return owners.pop()


def _without_repeats(candidates: tuple[TraceCandidate, ...]) -> tuple[TraceCandidate, ...]:
    """Without what was found of a cluster as a whole where pools were chosen on it: those show it too."""
    chosen = {found.cluster for found in candidates if found.verdict is CandidateVerdict.CHOSEN}
    return tuple(found for found in candidates if found.pool is not None or found.cluster not in chosen)


def _summary(found: DeploymentDecision, planned: DeploymentPlan, candidates: tuple[TraceCandidate, ...]) -> str:
    decided, wanted = found.decided, found.request.replicas
    moving = sum(placement.decision is ReplicaDecision.MOVING for placement in decided.placements)
    parts = [f"{len(decided.placements) - moving} of {wanted} replicas are placed"]
    if moving:
        parts.append(f"{moving} {'stays' if moving == 1 else 'stay'} until a successor serves")
    evicted = sum(row.action is Action.EVICT for row in planned.rows)
    if evicted:
        parts.append(f"{evicted} of lower priority {'is' if evicted == 1 else 'are'} evicted")
    parts += [f"{row.replicas} wait: {row.reason}" for row in planned.rows if row.action is Action.WAIT]
    return "; ".join([*parts, _places(candidates, by_pool=len(found.request.engines) == 1)])


def _places(candidates: tuple[TraceCandidate, ...], *, by_pool: bool) -> str:
    """How many places could take one more replica. One of several engines takes a cluster, not a pool."""
    places = {(found.cluster, found.pool if by_pool else None): False for found in candidates}
    for found in candidates:
        places[found.cluster, found.pool if by_pool else None] |= takes_one_more(found)
    more = sum(places.values())
    refused = len(places) - more
    noun, refuse = "place" if more == 1 else "places", "refuses" if refused == 1 else "refuse"
    return f"{more} {noun} could take one more, {refused} {refuse} it"


def takes_one_more(found: TraceCandidate) -> bool:
    """Whether a place was not refused for one more replica, whether it holds some or not."""
    return found.verdict is not CandidateVerdict.REFUSED and found.score is not None


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
        tier=found.tier,
        replicas=found.replicas,
    )
