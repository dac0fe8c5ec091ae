"""Every request that is offered ends exactly once, in the outcome that the rules say."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.flowcontrol import BandSettings, FlowControl, FlowSettings
from modelplane.epp.flowcontrol.control import IDLE_BAND_S
from modelplane.epp.flowcontrol.fairness import RoundRobin, Strict, TokenFair
from modelplane.epp.flowcontrol.least_served import LeastServed
from modelplane.epp.flowcontrol.ordering import EarliestGoal
from modelplane.epp.flowcontrol.usage import Holdback, HoldbackParameters
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request

POLICIES = (Strict("strict"), RoundRobin("turns"), TokenFair("tokens"), LeastServed("served"))


def request(name: str = "r", priority: int = 0, size: int = 10, fairness_id: str = "") -> Request:
    return Request(name, "m", priority=priority, size=size, fairness_id=fairness_id, prompts=(b"x" * size,))


def names(tickets) -> list[str]:
    return [ticket.request.id for ticket in tickets]


def drain(flow: FlowControl, now_s: float = 0.0, saturation: float = 0.0) -> list[str]:
    found = []
    while (ticket := flow.dispatch(now_s, saturation, 1)) is not None:
        found.append(ticket)
    return names(found)


def test_higher_priorities_go_first_and_arrival_decides_inside():
    flow = FlowControl()
    for name, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 0)):
        flow.enqueue(request(name, priority), 0.0)
    assert flow.bands == [(5, 2, 20), (0, 2, 20), (-1, 1, 10)]
    assert flow.next_up == 5
    assert drain(flow) == ["b", "d", "a", "e", "c"]
    assert (flow.waiting, flow.waiting_bytes, flow.next_up) == (0, 0, None)


def test_a_dispatched_item_has_its_waiting_time():
    flow = FlowControl()
    ticket = flow.enqueue(request(), 1.0)
    assert ticket.final_state is None
    assert flow.dispatch(3.5, 0.0, 1) is ticket
    assert (ticket.final_state.released, ticket.final_state.outcome, ticket.final_state.waited_s) == (True, None, 2.5)


@pytest.mark.parametrize(
    ("settings", "offered", "why"),
    [
        (FlowSettings(default_band=BandSettings(2)), [0, 0, 0], "2 of 2 requests are queued at priority 0"),
        (FlowSettings(default_band=BandSettings(0, 25)), [0, 0, 0], "20 of 25 bytes are queued at priority 0"),
        (FlowSettings(max_requests=2), [0, 1, 2], "2 of 2 requests are queued"),
        (FlowSettings(max_bytes=29), [0, 1, 2], "20 of 29 bytes are queued"),
        (FlowSettings(negative_band=BandSettings(1)), [-1, 0, -1], "1 of 1 requests are queued at priority -1"),
        (FlowSettings(bands={3: BandSettings(1)}), [3, 0, 3], "1 of 1 requests are queued at priority 3"),
    ],
)
def test_full_queues_reject_requests(settings, offered, why):
    flow = FlowControl(settings)
    tickets = [flow.enqueue(request(priority=priority), 0.0) for priority in offered]
    endings = [ticket.final_state for ticket in tickets]
    assert endings[:2] == [None, None]
    assert endings[2].outcome is Outcome.SATURATED
    assert why in endings[2].why
    assert flow.waiting == 2


@pytest.mark.parametrize(
    ("saturation", "expected"),
    [(0.4, ["high", "low"]), (0.5, ["high"]), (0.99, ["high"]), (1.0, []), (7.0, []), (float("nan"), ["high", "low"])],
)
def test_a_band_at_its_ceiling_waits_and_so_do_those_below(saturation, expected):
    flow = FlowControl(FlowSettings(usage=Holdback("h", HoldbackParameters(min_ceiling=0.5))))
    flow.enqueue(request("low", 0), 0.0)
    flow.enqueue(request("high", 1), 0.0)
    assert drain(flow, saturation=saturation) == expected


def test_a_blocked_band_holds_back_those_below_even_if_their_ceiling_is_higher():
    class UpsideDown:
        name = "upside-down"

        def ceilings(self, priorities, _saturation):
            return [0.1, 1.0][: len(priorities)]

    flow = FlowControl(FlowSettings(usage=UpsideDown()))
    flow.enqueue(request("low", 0), 0.0)
    high = flow.enqueue(request("high", 1), 0.0)
    assert drain(flow, saturation=0.5) == []
    flow.abandon(high, 0.0)
    assert drain(flow, saturation=0.5) == ["low"]


@pytest.mark.parametrize(
    ("ttl_s", "no_endpoint_ttl_s", "endpoints", "now_s", "expected"),
    [
        (60.0, 60.0, 1, 59.9, None),
        (60.0, 60.0, 1, 60.0, Outcome.EXPIRED),
        (60.0, 5.0, 0, 5.0, Outcome.NO_ENDPOINTS),
        (60.0, 5.0, 1, 5.0, None),
        (60.0, 600.0, 0, 599.0, None),
        (0.0, 60.0, 1, 1e9, None),
        (60.0, 0.0, 0, 1e9, None),
    ],
)
def test_waits_expire(ttl_s, no_endpoint_ttl_s, endpoints, now_s, expected):
    flow = FlowControl(FlowSettings(ttl_s=ttl_s, no_endpoint_ttl_s=no_endpoint_ttl_s))
    ticket = flow.enqueue(request(), 0.0)
    expired = flow.expire(now_s, endpoints)
    assert (expired == [ticket]) == (expected is not None)
    assert (ticket.final_state and ticket.final_state.outcome) == expected


def test_a_pool_that_scales_from_zero_keeps_those_who_waited_for_it():
    flow = FlowControl(FlowSettings(ttl_s=60.0, no_endpoint_ttl_s=600.0))
    ticket = flow.enqueue(request("patient"), 0.0)
    assert flow.dispatch(1.0, 0.0, 0) is None
    assert flow.expire(300.0, 0) == []
    assert flow.expire(301.0, 1) == []
    assert flow.expire(360.9, 1) == []
    assert flow.dispatch(360.9, 0.0, 1) is ticket


def test_changing_endpoints_keep_no_request_queued_for_ever():
    flow = FlowControl(FlowSettings(ttl_s=60.0, no_endpoint_ttl_s=100.0))
    flow.enqueue(request(), 0.0)
    ended = [len(flow.expire(float(second), second % 2)) for second in range(1, 200)]
    assert sum(ended) == 1
    assert ended.index(1) <= 160


def test_a_client_that_went_away_ends_its_wait_once():
    flow = FlowControl()
    ticket = flow.enqueue(request(), 0.0)
    assert [flow.abandon(ticket, 2.0), flow.abandon(ticket, 3.0)] == [True, False]
    assert (ticket.final_state.outcome, ticket.final_state.waited_s) == (Outcome.ABANDONED, 2.0)
    assert drain(flow) == []


def test_stopping_ends_all_and_takes_no_more():
    flow = FlowControl()
    waiting = [flow.enqueue(request(str(i)), 0.0) for i in range(3)]
    assert flow.stop(1.0) == waiting
    late = flow.enqueue(request("late"), 2.0)
    assert {ticket.final_state.outcome for ticket in (*waiting, late)} == {Outcome.STOPPING}
    assert (flow.waiting, flow.stop(3.0)) == (0, [])


def test_unused_bands_are_dropped_unless_configured():
    flow = FlowControl(FlowSettings(bands={7: BandSettings()}))
    for priority in (1, 2, 7):
        flow.enqueue(request(priority=priority), 0.0)
    drain(flow)
    flow.enqueue(request(priority=2), IDLE_BAND_S)
    flow.expire(IDLE_BAND_S + 1.0, 1)
    assert [band[0] for band in flow.bands] == [7, 2]


def test_the_ordering_policy_decides_inside_a_tenant():
    flow = FlowControl(FlowSettings(default_band=BandSettings(ordering=EarliestGoal("slo"))))
    for name, goal_s in (("none", 0.0), ("late", 9.0), ("soon", 1.0)):
        flow.enqueue(Request(name, ttft_goal_s=goal_s, received_s=1.0), 1.0)
    assert drain(flow) == ["soon", "late", "none"]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_requests_that_ended_while_waiting_leave_nothing_behind(policy):
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, policy)))
    for number in range(5000):
        ticket = flow.enqueue(request(fairness_id=f"t{number}"), 0.0)
        flow.abandon(ticket, 0.0)
    line = flow._order[0].queue
    kept = sum(
        len(getattr(line, name)) for name in ("_turns", "_order", "_tenants", "_queues", "_row") if hasattr(line, name)
    )
    assert kept < 300
    flow.enqueue(request("last"), 0.0)
    assert drain(flow) == ["last"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(-1, 2), st.sampled_from("abc")),
        st.tuples(st.just("dispatch"), st.floats(0.0, 1.2), st.integers(0, 2)),
        st.tuples(st.just("expire"), st.floats(0.0, 30.0), st.integers(0, 2)),
        st.tuples(st.just("abandon"), st.integers(0, 50), st.none()),
        st.tuples(st.just("used"), st.integers(0, 50), st.integers(0, 500)),
    ),
    max_size=80,
)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(steps)
def test_whatever_happens_each_request_ends_exactly_once(policy, steps):
    settings = FlowSettings(
        max_requests=12,
        ttl_s=20.0,
        no_endpoint_ttl_s=10.0,
        default_band=BandSettings(6, 100, policy),
        negative_band=BandSettings(2, 0, policy),
        usage=Holdback("h", HoldbackParameters(min_ceiling=0.4)),
    )
    flow, now_s = FlowControl(settings), 0.0
    offered, ended = [], []
    for kind, first, second in steps:
        now_s += 0.5
        if kind == "offer":
            offered.append(flow.enqueue(request(priority=first, fairness_id=second), now_s))
            ended += [ticket for ticket in offered[-1:] if ticket.final_state is not None]
            ended += flow.displaced()
        elif kind == "dispatch":
            ended += [ticket for ticket in (flow.dispatch(now_s, first, second),) if ticket is not None]
        elif kind == "expire":
            now_s += first
            ended += flow.expire(now_s, second)
        elif kind == "abandon" and first < len(offered):
            ended += [offered[first]] if flow.abandon(offered[first], now_s) else []
        elif kind == "used" and first < len(offered) and offered[first].final_state is not None:
            flow.record_usage(offered[first], second, second)
        still = [ticket for ticket in offered if ticket.final_state is None]
        assert flow.waiting == len(still) == len(offered) - len(ended)
        assert flow.waiting_bytes == sum(ticket.size for ticket in still)
        requests = Counter(ticket.priority for ticket in still)
        assert [band for band in flow.bands if band[1] or band[2]] == [
            (priority, number, number * 10) for priority, number in sorted(requests.items(), reverse=True)
        ]
    ended += flow.stop(now_s)
    assert sorted(ticket.number for ticket in ended) == sorted(ticket.number for ticket in offered)
    assert all(ticket.final_state is not None for ticket in offered)


def offered(flow: FlowControl, count: int, now_s: float) -> int:
    """How many of so many are queued."""
    return sum(flow.enqueue(request(), now_s).final_state is None for _ in range(count))


def test_a_priority_that_starves_queues_a_few_until_one_is_dispatched():
    flow = FlowControl(FlowSettings(default_band=BandSettings(16), ttl_s=30.0))
    assert offered(flow, 20, 0.0) == 16
    assert len(flow.expire(30.0, 1)) == 16
    assert offered(flow, 20, 30.0) == 2
    refused = flow.enqueue(request(), 30.0).final_state
    assert (refused.outcome, refused.why) == (
        Outcome.SATURATED,
        "requests of priority 0 expired, and none was dispatched since",
    )
    assert flow.enqueue(request(priority=1), 30.0).final_state is None  # another priority is not meant
    assert len(drain(flow, 31.0)) == 3
    assert offered(flow, 20, 31.0) == 16


def test_without_endpoints_nothing_starves():
    flow = FlowControl(FlowSettings(default_band=BandSettings(16), no_endpoint_ttl_s=5.0))
    flow.expire(0.0, 0)
    assert offered(flow, 16, 0.0) == 16
    assert {each.final_state.outcome for each in flow.expire(6.0, 0)} == {Outcome.NO_ENDPOINTS}
    assert offered(flow, 16, 6.0) == 16
