from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Refusal, RefusalCode, SparseVector
from modelplane.router.decisions import Attempt, AttemptSteps, DecisionRing
from modelplane.views.request_decisions import AttemptShown, CandidateStep


def steps():
    made = AttemptSteps()
    a, b = Endpoint("team/a", "1:1"), Endpoint("team/b", "1:2")
    made.refused("p", b, Refusal("health", RefusalCode.UNSCHEDULABLE, "failed {} times", (3,)))
    made.scored("p", a, 0.51239, (("load", 1.0),))
    made.picked("p", a)
    return made


def test_a_record_says_what_became_of_every_endpoint():
    ring = DecisionRing()
    record = ring.open("r", again=False)
    record.service = "team/chat"
    attempt = Attempt(1, 10.0, "Routed", "", steps())
    record.attempts.append(attempt)
    attempt.status, attempt.ended_s = 200, 10.25
    shown = ring.find("r", 11.0)
    assert (shown.service, shown.age_s) == ("team/chat", 1.0)
    assert shown.attempts == (
        AttemptShown(
            1, "Routed", "team/a", "", 200, 250.0,
            (
                CandidateStep("team/a", total=0.5124, scores={"load": 1.0}),
                CandidateStep("team/b", "health", "failed 3 times"),
            ),
        ),
    )  # fmt: skip


def test_scores_of_all_endpoints_at_once_are_shown_like_those_of_each():
    a, b = Endpoint("team/a", "1:1"), Endpoint("team/b", "1:2")
    one_by_one, at_once = AttemptSteps(), AttemptSteps()
    one_by_one.scored("p", a, 0.25, (("load", 0.5), ("prefix", 0.0)))
    one_by_one.scored("p", b, 0.75, (("load", 0.5), ("prefix", 1.0)))
    at_once.scored_all((a, b), [0.25, 0.75], ("load", "prefix"), [(0.5, 0.5), SparseVector(2, {1: 1.0}, 0.0)])
    assert list(at_once.scores()) == list(one_by_one.scores()) == [
        ("team/a", 0.25, {"load": 0.5, "prefix": 0.0}),
        ("team/b", 0.75, {"load": 0.5, "prefix": 1.0}),
    ]  # fmt: skip


def test_a_further_attempt_belongs_to_its_record_and_a_new_request_does_not():
    ring = DecisionRing()
    ring.open("r", again=False).attempts.append(Attempt(1, 1.0, "Routed", "", steps()))
    assert ring.tried("r") == {"team/a"}
    ring.open("r", again=True).attempts.append(Attempt(2, 1.0, "Routed", "", None))
    assert len(ring.find("r", 2.0).attempts) == 2
    assert ring.open("r", again=False).attempts == []


def test_the_ring_is_bounded_and_forgets_the_oldest():
    ring = DecisionRing(most=3)
    for number in range(5):
        ring.open(str(number), again=False)
    assert len(ring) == 3
    assert [each.id for each in ring.latest(2, 0.0)] == ["4", "3"]
    assert ring.find("0", 0.0) is None
    assert ring.tried("0") == frozenset()


def test_the_attempts_of_one_id_are_bounded():
    ring = DecisionRing()
    for number in range(100):
        ring.open("r", again=True).attempts.append(Attempt(number, 0.0, "Routed", "", None))
    assert len(ring.find("r", 0.0).attempts) <= 16
