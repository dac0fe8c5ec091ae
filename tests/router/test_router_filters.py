"""What each filter of the default profile does, seen through decisions."""

from collections import Counter

import pytest

from modelplane.router.summaries import SATURATION
from tests.router.conftest import chat, endpoint, overflow, plan, provider


def refusals(front, identity):
    shown = front.director.ring.find(identity, front.now_s)
    return {each.endpoint: (each.refused_by, each.why) for each in shown.attempts[-1].candidates if each.refused_by}


def test_an_endpoint_that_the_plan_leaves_out_gets_nothing(front):
    door = front(plan([endpoint("a", ready=False, weight=0, message="the replica is starting"), endpoint("b")]))
    assert {door.ask(headers={"x-request-id": "r"}) for _ in range(8)} == {"b"}
    assert refusals(door, "r") == {"team/a": ("ready-endpoint-filter", "the replica is starting")}


def test_nothing_ready_is_503_and_residency_is_403(front):
    door = front(plan([endpoint("a", ready=False, weight=0)]), plan([provider("p")], name="away"))
    assert door.ask() == "NotReady"
    assert door.ask(model="team/away", headers={"x-modelplane-residency": "fleet"}) == "Residency"
    assert door.ask(model="team/away", headers={"x-modelplane-residency": "what?"}) == "Malformed"
    assert door.ask(model="team/away") == "p"


def test_an_endpoint_that_may_serve_but_is_not_ready_is_no_reason_to_leave_the_region(front):
    door = front(plan([endpoint("a", ready=False, weight=0), provider("p")]))
    assert door.ask(headers={"x-modelplane-residency": "fleet"}) == "NotReady"


def test_an_adapter_leads_to_the_replicas_that_hold_it(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    door.catalog.learned(door.catalog.endpoints["team/b"], ("engine", "legal"))
    assert {door.ask(model="team/chat:legal") for _ in range(6)} == {"b"}
    assert {door.ask() for _ in range(20)} == {"a", "b"}


def test_a_retry_goes_to_an_endpoint_that_was_not_tried(front):
    door = front(plan([endpoint("a"), endpoint("b"), endpoint("c")]))
    for identity in map(str, range(10)):
        sent = []
        for attempt in (1, 2, 3, 4):
            routed = door.send(headers={"x-request-id": identity, "x-envoy-attempt-count": str(attempt)})
            sent.append(routed.member.plan.name)
            door.end(routed, 429)
        assert sorted(sent[:3]) == ["a", "b", "c"]


def test_a_failing_endpoint_gets_nothing_until_its_trial(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    while True:
        routed = door.send()
        if routed.member.plan.name == "a":
            door.end(routed, 503, unserved=True)
            break
        door.end(routed)
    assert {door.ask() for _ in range(50)} == {"b"}
    door.now_s += 1.1
    assert "a" in {door.ask() for _ in range(50)}


def test_where_all_fail_requests_still_go_somewhere(front):
    door = front(plan([endpoint("a")]))
    for _ in range(5):
        assert door.ask(500) == "a"


def test_the_next_tier_gets_nothing_while_the_first_has_room(front):
    door = front(plan([endpoint("a")], [provider("p")]))
    assert {door.ask(headers={"x-request-id": "r"}) for _ in range(20)} == {"a"}
    assert refusals(door, "r") == {"team/p": ("priority-tier-filter", "priority 1 is not needed: priority 0 has room")}


def test_the_next_tier_takes_over_when_the_first_fails_and_gives_back(front):
    door = front(plan([endpoint("a")], [provider("p")]))
    door.end(door.send(), 503, unserved=True)
    assert {door.ask() for _ in range(10)} == {"p"}
    door.now_s += 1.1
    assert [door.ask() for _ in range(5)] == ["a"] * 5


def tiers(*sizes):
    """Names of endpoints by tier and number, each at an address of its own."""
    return plan(
        *(
            [endpoint(f"{tier}-{at}", address=f"10.0.{tier}.{at}") for at in range(size)]
            for tier, size in enumerate(sizes)
        )
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param((9,), "0000", id="one tier has all attempts"),
        pytest.param((4, 1), "0001", id="one is left for the next tier"),
        pytest.param((9, 9), "0001", id="however many endpoints there are"),
        pytest.param((2, 1), "001", id="a tier that is exhausted is left before"),
        pytest.param((9, 9, 9), "0012", id="one for each of the next tiers"),
        pytest.param((1, 9, 9), "0112", id="the first tier needs one only"),
        pytest.param((9, 9, 9, 9, 9, 9), "0123", id="no tier is left out for a later one"),
        pytest.param((1, 1, 1, 1, 1, 1), "0123", id="nor where each has one endpoint"),
    ],
)
def test_attempts_are_left_for_later_tiers(front, sizes, expected):
    """Nobody answers, and no probe says so."""
    door = front(tiers(*sizes))
    sent = ""
    for attempt in range(1, len(expected) + 1):
        routed = door.send(headers={"x-request-id": "r", "x-envoy-attempt-count": str(attempt)})
        sent += routed.member.plan.name.partition("-")[0]
        door.end(routed, 503, unserved=True)
    assert sent == expected


def test_a_tier_that_is_left_says_so(front):
    door = front(tiers(4, 1))
    for attempt in (1, 2, 3, 4):
        routed = door.send(headers={"x-request-id": "r", "x-envoy-attempt-count": str(attempt)})
        door.end(routed, 429)
    left = [why for filter_, why in refusals(door, "r").values() if filter_ == "priority-tier-filter"]
    assert left == ["priority 0 was tried: the last attempts go on"]


def test_a_later_tier_that_fails_as_a_whole_needs_no_attempt(front):
    door = front(tiers(9, 1))
    door.catalog.endpoints["team/1-0"].health.probed(door.now_s, answers=False)
    for attempt in (1, 2, 3, 4):
        routed = door.send(headers={"x-request-id": "r", "x-envoy-attempt-count": str(attempt)})
        assert routed.member.priority == 0
        door.end(routed, 503, unserved=True)


def test_requests_overflow_at_the_limit_in_flight(front):
    door = front(plan([endpoint("a", overflow=overflow(limit=3))], [provider("p")]))
    routed = [door.send() for _ in range(5)]
    assert [each.member.plan.name for each in routed] == ["a", "a", "a", "p", "p"]
    door.end(routed[0])
    assert door.send().member.plan.name == "a"


def test_requests_overflow_when_a_cluster_reports_that_it_is_full(front):
    door = front(plan([endpoint("a", overflow=overflow(saturation=90))], [provider("p")]))
    door.catalog.endpoints["team/a"].candidate.attributes = {SATURATION: 0.95}
    assert door.ask() == "p"


def test_no_more_than_the_budget_overflows(front):
    door = front(plan([endpoint("a", overflow=overflow(limit=1, most=50))], [provider("p")]))
    sent = Counter(door.send().member.plan.name for _ in range(10))
    assert sent == {"a": 5, "p": 5}


def test_without_another_tier_a_full_one_goes_on(front):
    door = front(plan([endpoint("a", overflow=overflow(limit=1)), endpoint("b", overflow=overflow(limit=1))]))
    assert Counter(door.send().member.plan.name for _ in range(6)) == {"a": 3, "b": 3}


def test_a_full_endpoint_leaves_its_tier_to_the_others(front):
    limit = overflow(limit=1)
    door = front(plan([endpoint("a", overflow=limit), endpoint("b", overflow=overflow(limit=9))]))
    sent = Counter(door.send().member.plan.name for _ in range(6))
    assert sent == {"a": 1, "b": 5}


def test_weights_hold_between_the_fleet_and_a_provider_beside_it(front):
    tier = [
        endpoint("us", group="us", weight=70),
        endpoint("eu", group="eu", weight=20),
        provider("saas", group="saas", weight=10),
    ]
    door = front(plan(tier))
    assert Counter(door.ask(content=str(n)) for n in range(100)) == {"us": 70, "eu": 20, "saas": 10}


def test_a_preferred_group_does_not_exceed_its_share_by_much(front):
    door = front(plan([endpoint("us", group="us", weight=3), endpoint("eu", group="eu", weight=1)]))
    same = chat(content="the same long question " * 200)
    sent = Counter(door.ask(request=same) for _ in range(600))
    assert 0.15 < sent["eu"] / 600 < 0.30
