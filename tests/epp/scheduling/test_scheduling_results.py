"""What a decision says, by the short ways that the request path takes."""

import pytest

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import OtherModel, Outcome
from modelplane.epp.scheduling.results import decision_from, destinations_of, picked_of
from modelplane.framework import Refusal, RefusalCode, Result, RunOutcome, Scored

A, B, C = (Endpoint(name, f"10.0.0.{at}:8000") for at, name in enumerate("abc"))


@pytest.mark.parametrize(
    ("decision", "found"),
    [
        (Decision(Outcome.PICKED, ((A,),)), "10.0.0.0:8000"),
        (Decision(Outcome.PICKED, ((A, B),)), "10.0.0.0:8000,10.0.0.1:8000"),
        (Decision(Outcome.PICKED, ((C,), (A, B))), "10.0.0.2:8000,10.0.0.0:8000,10.0.0.1:8000"),
        (Decision(Outcome.PICKED, ((A,),), addresses=("10.9.9.9:1", "10.9.9.8:1")), "10.9.9.9:1,10.9.9.8:1"),
        (Decision(Outcome.NO_ENDPOINTS), ""),
    ],
    ids=["one", "equals", "groups", "other addresses", "none"],
)
def test_destinations(decision, found):
    assert (destinations_of(decision), decision.destinations) == (found, found)


def test_the_first_choice():
    decision = Decision(Outcome.PICKED, ((C, A), (B,)))
    assert picked_of(decision) is decision.picked is C


def ranked(*totals):
    return Result(RunOutcome.PICKED, tuple(Scored(*each, ()) for each in zip((A, B, C), totals, strict=False)))


def refused(outcome, *refusals):
    return Result(outcome, refusals=refusals)


NO_ROLE = Refusal("role", RefusalCode.UNRESOLVABLE, "has the role {}", ("decode",))
BUSY = Refusal("load", RefusalCode.UNSCHEDULABLE, "is full")
OTHER = OtherModel("model", RefusalCode.UNRESOLVABLE, "does not serve {}", ("m",))


@pytest.mark.parametrize(
    ("result", "outcome", "groups", "why"),
    [
        (ranked(1.0), "PICKED", ((A,),), ""),
        (ranked(2.0, 1.0), "PICKED", ((A,), (B,)), ""),
        (ranked(1.0, 1.0), "PICKED", ((A, B),), ""),
        (ranked(2.0, 1.0, 1.0), "PICKED", ((A,), (B, C)), ""),
        (refused(RunOutcome.NOTHING_OFFERED), "NO_ENDPOINTS", (), "no endpoint is ready"),
        (
            refused(RunOutcome.ALL_UNSCHEDULABLE, NO_ROLE, BUSY), "SATURATED", (),
            "profile p admits no endpoint: role: has the role decode; load: is full",
        ),
        (
            refused(RunOutcome.ALL_UNRESOLVABLE, OTHER, NO_ROLE), "EXCLUDED", (),
            "profile p admits no endpoint: model: does not serve m; role: has the role decode",
        ),
        (
            refused(RunOutcome.ALL_UNRESOLVABLE, NO_ROLE, OTHER), "UNKNOWN_MODEL", (),
            "profile p admits no endpoint: role: has the role decode; model: does not serve m",
        ),
        (refused(RunOutcome.ALL_UNRESOLVABLE), "EXCLUDED", (), "profile p admits no endpoint: "),
    ],
    ids=["one", "two", "equals", "groups", "none offered", "full", "no role", "other models", "nothing said"],
)  # fmt: skip
def test_what_a_profile_came_to(result, outcome, groups, why):
    found = decision_from("p", result)
    assert (found.outcome.name, found.profile, found.groups, found.why) == (outcome, "p", groups, why)
