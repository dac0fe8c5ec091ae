"""What a decision says, by the short ways that the request path takes."""

import pytest

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.results import destinations_of, picked_of

A, B, C = (Endpoint(name, f"10.0.0.{at}:8000") for at, name in enumerate("abc"))


@pytest.mark.parametrize(
    ("decision", "found"),
    [
        (Decision(Outcome.PICKED, ((A,),)), "10.0.0.0:8000"),
        (Decision(Outcome.PICKED, ((A, B),)), "10.0.0.0:8000,10.0.0.1:8000"),
        (Decision(Outcome.PICKED, ((C,), (A, B))), "10.0.0.2:8000,10.0.0.0:8000,10.0.0.1:8000"),
        (Decision(Outcome.PICKED, ((A,),), addresses=("10.9.9.9:1",)), "10.9.9.9:1"),
        (Decision(Outcome.NO_ENDPOINTS), ""),
    ],
    ids=["one", "equals", "groups", "other addresses", "none"],
)
def test_destinations(decision, found):
    assert (destinations_of(decision), decision.destinations) == (found, found)


def test_the_first_choice():
    decision = Decision(Outcome.PICKED, ((C, A), (B,)))
    assert picked_of(decision) is decision.picked is C
