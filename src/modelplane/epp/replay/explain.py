"""Explains the decision for a request: decides it again and reports every step.

First the plugins record the requests that the state lists as sent. Then the request is decided as the server would
decide it, with a reporter. Same configuration, state, request and seed: same explanation.
"""

from collections.abc import Callable, Sequence

import msgspec

from modelplane.epp.config.config import Config
from modelplane.epp.replay.snapshot import PoolState
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.scheduling.subsets import filter_by_subset
from modelplane.framework import Refusal


class _Shown(msgspec.Struct, frozen=True, rename="camel"):
    pass


class ScoreExplanation(_Shown, frozen=True):
    scorer: str
    score: float
    weight: float


class EndpointExplanation(_Shown, frozen=True, omit_defaults=True):
    """One endpoint as one profile saw it."""

    name: str
    address: str
    verdict: str
    """`picked`, `scored` or `refused`."""
    total: float | None = None
    scores: tuple[ScoreExplanation, ...] = ()
    filter: str = ""
    code: str = ""
    reason: str = ""


class ProfileExplanation(_Shown, frozen=True):
    name: str
    picks: tuple[str, ...]
    endpoints: tuple[EndpointExplanation, ...]


class PickExplanation(_Shown, frozen=True):
    outcome: str
    status: int
    why: str
    profile: str
    destinations: str
    groups: tuple[tuple[str, ...], ...]
    set_headers: dict[str, str]
    remove_headers: tuple[str, ...]
    shadows: dict[str, tuple[str, ...]]
    not_allowed: tuple[str, ...]
    """Endpoints that the proxy's subset leaves out."""
    profiles: tuple[ProfileExplanation, ...]


class _StepsByProfile:
    """The steps of each profile."""

    def __init__(self) -> None:
        self.refusals: dict[str, list[tuple[Endpoint, Refusal]]] = {}
        self.scores: dict[str, list[tuple[Endpoint, float, tuple[tuple[str, float], ...]]]] = {}

    def refused(self, profile: str, endpoint: Endpoint, refusal: Refusal, /) -> None:
        self.refusals.setdefault(profile, []).append((endpoint, refusal))

    def scored(self, profile: str, endpoint: Endpoint, total: float, parts: tuple[tuple[str, float], ...], /) -> None:
        self.scores.setdefault(profile, []).append((endpoint, total, parts))

    def picked(self, _profile: str, _endpoint: Endpoint, /) -> None:
        """The results of the cycle have it."""


def explain(config: Config, request: Request, state: PoolState, chance: Callable[[], float]) -> PickExplanation:
    scheduler = Scheduler(config.build())
    warm(scheduler, state, chance)
    return explain_by(scheduler, config, request, state, chance)


def explain_by(
    scheduler: Scheduler, config: Config, request: Request, state: PoolState, chance: Callable[[], float]
) -> PickExplanation:
    """With plugins that have their state."""
    steps = _StepsByProfile()
    context = SchedulingContext(request, filter_by_subset(state.endpoints, request.subset), state.now_s, chance)
    if state.endpoints:
        decision = scheduler.decide(context, steps)
    else:
        decision = scheduler.schedule(request, (), state.now_s, chance)
    weights = {plan.name: dict(plan.scorers) for plan in config.profiles}
    allowed = set(context.endpoints)
    return PickExplanation(
        decision.outcome.title,
        decision.outcome.status,
        decision.why,
        decision.profile,
        decision.destinations,
        tuple(_names(group) for group in decision.groups),
        dict(decision.set_headers),
        decision.remove_headers,
        {name: _names(picks) for name, picks in decision.shadows},
        tuple(endpoint.name for endpoint in state.endpoints if endpoint not in allowed),
        tuple(_profile(name, context, steps, weights[name]) for name in context.results),
    )


def warm(scheduler: Scheduler, state: PoolState, chance: Callable[[], float]) -> None:
    """Let the plugins record what the state lists as sent."""
    scheduler.endpoints_changed(state.endpoints)
    for request, endpoint in state.sent:
        context = SchedulingContext(request, state.endpoints, state.now_s, chance)
        scheduler.record_sent(context, Decision(Outcome.PICKED, ((endpoint,),)))


def _profile(
    name: str, context: SchedulingContext, steps: _StepsByProfile, weights: dict[str, float]
) -> ProfileExplanation:
    picks = [found.candidate for found in context.results[name].ranked]
    scored = [
        EndpointExplanation(
            endpoint.name,
            endpoint.address,
            "picked" if endpoint in picks else "scored",
            total,
            tuple(ScoreExplanation(scorer, score, weights[scorer]) for scorer, score in parts),
        )
        for endpoint, total, parts in steps.scores.get(name, ())
    ]
    refused = [
        EndpointExplanation(
            endpoint.name,
            endpoint.address,
            "refused",
            filter=refusal.filter,
            code=str(refusal.code),
            reason=refusal.reason,
        )
        for endpoint, refusal in steps.refusals.get(name, ())
    ]
    best_first = sorted(scored, key=lambda shown: (-(shown.total or 0.0), shown.name))
    return ProfileExplanation(name, _names(picks), (*best_first, *sorted(refused, key=lambda shown: shown.name)))


def _names(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    return tuple(endpoint.name for endpoint in endpoints)
