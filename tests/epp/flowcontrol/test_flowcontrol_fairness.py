"""Shares of a pool that cannot serve all: who gets how much when one tenant sends far more than the others."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.flowcontrol import BandSettings, FlowControl, FlowSettings
from modelplane.epp.flowcontrol.fairness import RoundRobin, Strict, TokenFair, TokenFairParameters
from modelplane.epp.flowcontrol.least_served import WINDOW, LeastServed, LeastServedParameters
from modelplane.epp.scheduling.requests import Request


def overload(policy, tenants: dict[str, tuple[int, int]], ticks: int = 400, room: int = 4000):
    """Each tick every tenant offers so many requests of so many tokens, and the pool releases `room` tokens' worth.

    Gives requests and tokens released of each tenant.
    """
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, policy)))
    requests, tokens, credit = Counter(), Counter(), 0
    for tick in range(ticks):
        for fairness_id, (count, length) in tenants.items():
            for _ in range(count):
                flow.enqueue(
                    Request("r", fairness_id=fairness_id, prompts=(b"x" * (length * 4),), max_output_tokens=1),
                    float(tick),
                )
        credit += room
        while credit > 0 and (ticket := flow.dispatch(float(tick), 0.0, 1)) is not None:
            requests[ticket.fairness_id] += 1
            tokens[ticket.fairness_id] += ticket.tokens
            credit -= ticket.tokens
    return requests, tokens


HEAVY_AND_LIGHT = {"heavy": (20, 1000), "small": (20, 100), "light": (1, 100)}


def test_in_one_order_the_heavy_tenant_takes_what_it_sends():
    requests, tokens = overload(Strict("s"), HEAVY_AND_LIGHT)
    assert requests["heavy"] == pytest.approx(20 * requests["light"], rel=0.1)
    assert tokens["heavy"] > 8 * tokens["small"]


def test_round_robin_shares_requests_and_serves_the_light_tenant_fully():
    requests, _ = overload(RoundRobin("r"), HEAVY_AND_LIGHT)
    assert requests["light"] == pytest.approx(400, abs=3)
    assert requests["heavy"] == pytest.approx(requests["small"], abs=2)


def test_by_tokens_the_heavy_tenant_cannot_starve_anybody():
    requests, tokens = overload(TokenFair("t"), HEAVY_AND_LIGHT)
    assert requests["light"] == pytest.approx(400, abs=3)
    assert tokens["heavy"] == pytest.approx(tokens["small"], rel=0.05)


def test_by_service_the_heavy_tenant_cannot_starve_anybody():
    requests, tokens = overload(LeastServed("l"), HEAVY_AND_LIGHT)
    assert requests["light"] > 300
    assert tokens["heavy"] < 2.5 * tokens["small"]


def test_by_service_what_was_attained_fades():
    line = LeastServed("l", LeastServedParameters(las_half_life_seconds=10.0)).new_queue()
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, LeastServed("l"))))
    first = flow.enqueue(Request("r", fairness_id="a", prompts=(b"x" * 400,)), 0.0)
    line.record_usage(first, 1000, 0)
    line.pop(20.0)
    line.push(flow.enqueue(Request("r", fairness_id="a"), 20.0))
    assert line._of("a") == pytest.approx((1000 - 100 - 512) / 4)


def test_by_service_all_alike_the_one_that_waits_longest_goes():
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, LeastServed("l"))))
    for at_s, fairness_id in enumerate("cab"):
        flow.enqueue(Request("r", fairness_id=fairness_id), float(at_s))
    assert [flow.dispatch(5.0, 0.0, 1).fairness_id for _ in range(3)] == ["c", "a", "b"]


def test_by_service_of_many_tenants_each_has_its_turn():
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, LeastServed("l"))))
    for number in range(5 * WINDOW):
        for _ in range(3):
            flow.enqueue(Request("r", fairness_id=str(number)), 0.0)
    released = Counter(flow.dispatch(0.0, 0.0, 1).fairness_id for _ in range(10 * WINDOW))
    assert (len(released), set(released.values())) == (5 * WINDOW, {2})


def test_by_service_what_is_remembered_of_tenants_is_bounded():
    line = LeastServed("l", LeastServedParameters(eviction_ttl_seconds=5.0, eviction_sweep_seconds=1.0)).new_queue()
    control = FlowControl(FlowSettings(default_band=BandSettings(0, 0)))
    for number in range(50):
        line.push(control.enqueue(Request("r", fairness_id=str(number)), float(number)))
        line.pop(float(number))
    assert len(line._attained) <= 7


def test_by_tokens_weights_count():
    parameters = TokenFairParameters(weights={"gold": 3.0}, output_token_weight=0.0)
    _, tokens = overload(TokenFair("t", parameters), {"gold": (20, 500), "iron": (20, 500)})
    assert tokens["gold"] == pytest.approx(3 * tokens["iron"], rel=0.05)


@pytest.mark.parametrize(("policy", "bound"), [(RoundRobin("r"), 1), (TokenFair("t"), 1)])
def test_two_alike_never_differ_by_more_than_one_request(policy, bound):
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, policy)))
    for fairness_id in "a" * 50 + "b" * 50:
        flow.enqueue(Request("r", fairness_id=fairness_id), 0.0)
    released = Counter()
    for _ in range(100):
        released[flow.dispatch(0.0, 0.0, 1).fairness_id] += 1
        assert abs(released["a"] - released["b"]) <= bound


def test_an_absent_flow_saves_no_turns():
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, TokenFair("t"))))
    for _ in range(60):
        flow.enqueue(Request("r", fairness_id="busy"), 0.0)
    for _ in range(30):
        flow.dispatch(0.0, 0.0, 1)
    for _ in range(30):
        flow.enqueue(Request("r", fairness_id="back"), 0.0)
    following = Counter(flow.dispatch(0.0, 0.0, 1).fairness_id for _ in range(20))
    assert abs(following["busy"] - following["back"]) <= 1


def test_what_a_request_came_to_is_charged_later():
    parameters = TokenFairParameters(estimated_output_tokens=0)
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, TokenFair("t", parameters))))
    for fairness_id in "ab" * 20:
        flow.enqueue(Request("r", fairness_id=fairness_id, prompts=(b"x" * 400,)), 0.0)
    released = Counter()
    for _ in range(20):
        ticket = flow.dispatch(0.0, 0.0, 1)
        released[ticket.fairness_id] += 1
        flow.record_usage(ticket, 100, 450 if ticket.fairness_id == "a" else 0)
    assert released["b"] >= 8 * released["a"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 50)), min_size=1, max_size=60))
def test_every_waiting_tenant_gets_a_turn_within_as_many_turns_as_there_are_tenants(offered):
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, RoundRobin("r"))))
    for fairness_id, length in offered:
        flow.enqueue(Request("r", fairness_id=fairness_id, prompts=(b"x" * length,)), 0.0)
    left = Counter(fairness_id for fairness_id, _ in offered)
    while left:
        expected = set(left)
        turn = [flow.dispatch(0.0, 0.0, 1).fairness_id for _ in expected]
        assert set(turn) == expected
        left -= Counter(turn)


def test_tags_of_tenants_that_left_are_bounded():
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, TokenFair("t"))))
    line = flow._bands.get(0) or flow._add_band(0)
    for _ in range(2):
        flow.enqueue(Request("r", fairness_id="old"), 0.0)
    flow.dispatch(0.0, 0.0, 1)
    for number in range(55_000):
        flow.enqueue(Request("r", fairness_id=str(number)), 0.0)
        flow.dispatch(0.0, 0.0, 1)
    assert len(line.queue._tags) <= 50_000


def test_an_empty_queue_resets_the_shares():
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, TokenFair("t"))))
    for _ in range(10):
        flow.enqueue(Request("r", fairness_id="early"), 0.0)
        flow.dispatch(0.0, 0.0, 1)
    for fairness_id in ("early", "other", "early", "other"):
        flow.enqueue(Request("r", fairness_id=fairness_id), 0.0)
    assert [flow.dispatch(0.0, 0.0, 1).fairness_id for _ in range(4)] == ["early", "other", "early", "other"]
