"""A fault at the writes of each scenario: here at a few of them, at all of them in `make deep`."""

import msgspec
import pytest

from modelplane.compose import model_deployment
from modelplane.placement.decisions import ReplicaDecision
from modelplane.testing.world.sieve import SCENARIOS, Disturbance, sieve

FIRST = 6
"""So many of the scenarios in `make test`; CI runs them all."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS[:FIRST], *(pytest.param(each, marks=pytest.mark.submission) for each in SCENARIOS[FIRST:])],
    ids=lambda each: each.name,
)
def test_a_disturbed_scenario_ends_as_it_does_undisturbed(scenario):
    results = list(sieve(scenario, points=1))
    assert len(results) >= len(Disturbance)
    assert [str(result) for result in results if result is not None] == []


def test_there_are_at_least_20_scenarios():
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS) >= 20


@pytest.mark.submission
@pytest.mark.slow
def test_a_defect_that_needs_a_crash_between_two_writes_is_found(monkeypatch):
    """A product that acts on changes and not on what is there: what it decided once, it does not decide again."""
    whole, decided, last = model_deployment.schedule, set(), [0.0]

    def decide(request, fleet, now, **named):
        found = whole(request, fleet, now, **named)
        if now < last[0]:
            decided.clear()
        last[0] = now
        fresh = [each for each in found.placements if each.decision is ReplicaDecision.NEW]
        if fresh and (request.deployment, request.replicas) in decided:
            rest = tuple(each for each in found.placements if each not in fresh)
            return msgspec.structs.replace(found, placements=rest, pending=len(fresh), unplaced=len(fresh))
        if fresh:
            decided.add((request.deployment, request.replicas))
        return found

    monkeypatch.setattr(model_deployment, "schedule", decide)
    found = [result for result in sieve(SCENARIOS[0], points=8) if result is not None]
    assert Disturbance.RESTART in {result.disturbance for result in found}
