"""A full queue is shared: only the flow that holds most is displaced by one that holds less."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.flowcontrol import BandSettings, FlowControl, FlowSettings
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request


def request(fairness_id: str, size: int = 10, priority: int = 0) -> Request:
    return Request(fairness_id, "m", priority=priority, size=size, fairness_id=fairness_id, prompts=(b"x" * size,))


def offered(settings: FlowSettings, *asked: tuple[str, int]) -> tuple[FlowControl, list]:
    flow = FlowControl(settings)
    return flow, [flow.enqueue(request(fairness_id, size), float(at)) for at, (fairness_id, size) in enumerate(asked)]


THREE = FlowSettings(default_band=BandSettings(3))
BYTES = FlowSettings(default_band=BandSettings(0, 100))


@pytest.mark.parametrize(
    ("settings", "asked", "ended"),
    [
        pytest.param(THREE, [("a", 1)] * 4, [3], id="alone: the newcomer goes"),
        pytest.param(THREE, [("a", 1), ("a", 1), ("a", 1), ("b", 1)], [2], id="the newest of who holds most gives way"),
        pytest.param(THREE, [("a", 1), ("a", 1), ("b", 1), ("b", 1)], [3], id="two and one: a change gains nothing"),
        pytest.param(THREE, [("a", 1), ("a", 1), ("b", 1), ("c", 1)], [1], id="two, one and none"),
        pytest.param(THREE, [("a", 1), ("b", 1), ("c", 1), ("d", 1)], [3], id="all hold one"),
        pytest.param(FlowSettings(max_requests=2), [("a", 1), ("a", 1), ("b", 1)], [1], id="the limit of all bands"),
        pytest.param(BYTES, [("a", 40), ("a", 40), ("b", 30)], [1], id="bytes"),
        pytest.param(BYTES, [("a", 40), ("a", 30), ("a", 20), ("b", 40)], [1, 2], id="bytes: as many as it takes"),
        pytest.param(BYTES, [("a", 90), ("b", 20)], [1], id="bytes: one large request is no hoard"),
        pytest.param(BYTES, [("a", 50), ("a", 50), ("b", 101)], [2], id="bytes: what never fits displaces none"),
    ],
)
def test_which_items_are_displaced(settings, asked, ended):
    flow, tickets = offered(settings, *asked)
    assert [at for at, ticket in enumerate(tickets) if ticket.final_state is not None] == ended
    assert {ticket.final_state.outcome for ticket in tickets if ticket.final_state is not None} == {Outcome.SATURATED}
    assert flow.displaced() == [tickets[at] for at in reversed(ended) if at < len(asked) - 1]
    assert flow.displaced() == []


def test_why_an_item_was_displaced():
    _, tickets = offered(FlowSettings(default_band=BandSettings(2)), ("a", 1), ("a", 1), ("b", 1))
    ending = tickets[1].final_state
    assert ending.why == "the queue of priority 0 is full and flow 'a' has most of it"
    assert ending.waited_s == 1.0


@pytest.mark.parametrize(
    ("queued", "flow", "refused"),
    [
        pytest.param("aaaaaaa", "a", False, id="alone: all of it"),
        pytest.param("aaaaa", "a", False, id="before the last quarter"),
        pytest.param("aaaaab", "a", True, id="the last quarter is for others"),
        pytest.param("aaaaab", "b", False, id="who has less than a share"),
        pytest.param("aaaaab", "c", False, id="who has nothing"),
        pytest.param("aaabbb", "a", False, id="three of four: a share is not whole"),
        pytest.param("aaaabbb", "a", True, id="four of four"),
        pytest.param("aaaabbb", "b", False, id="three of four, and one place"),
        pytest.param("aabbcc", "c", True, id="three flows: two each, and two places for others"),
    ],
)
def test_the_last_quarter_of_a_queue_is_for_flows_below_their_share(queued, flow, refused):
    control = FlowControl(FlowSettings(default_band=BandSettings(8)))
    assert [control.enqueue(request(each), 0.0).final_state for each in queued] == [None] * len(queued)
    found = control.enqueue(request(flow), 1.0).final_state
    why = f"flow '{flow}' has its share of the 8 requests that are queued at priority 0"
    assert (found.why if found else None) == (why if refused else None)
    assert control.displaced() == []


def test_five_times_the_load_refuses_at_once_and_hardly_anything_that_was_queued():
    flow, chance = FlowControl(FlowSettings(default_band=BandSettings(32))), random.Random(7)  # noqa: S311  not a secret
    waited, taken = [], 0
    for number in range(20_000):
        found = flow.enqueue(request(f"team-{number % 5}"), float(number))
        waited += [0.0] if found.final_state else []
        waited += [each.final_state.waited_s for each in flow.displaced()]
        taken += chance.random() < 0.2 and flow.dispatch(float(number), 0.0, 1) is not None
    assert (len(waited) + taken + flow.waiting, taken > 3_800) == (20_000, True)
    assert sum(each > 0 for each in waited) < len(waited) / 1000


def test_how_full_queues_are():
    limits = FlowSettings(max_requests=8, default_band=BandSettings(4, 100))
    flow, _ = offered(limits, ("a", 10), ("b", 15))
    flow.enqueue(request("c", priority=3), 0.0)
    assert flow.fullness == {"": (0.375, 0.0), "3": (0.25, 0.1), "0": (0.5, 0.25)}


def test_bands_do_not_give_way_to_each_other():
    flow = FlowControl(FlowSettings(default_band=BandSettings(1)))
    first, other = flow.enqueue(request("a"), 0.0), flow.enqueue(request("b", priority=1), 0.0)
    assert (first.final_state, other.final_state, flow.displaced()) == (None, None, [])


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["offer", "offer", "offer", "release", "leave"]))),
    st.integers(1, 8),
)
def test_a_tenant_gets_its_share_of_a_full_queue_whatever_others_do(steps, most):
    flow = FlowControl(FlowSettings(default_band=BandSettings(most)))
    waiting: dict[int, object] = {}
    for at, (fairness_id, what) in enumerate(steps):
        if what == "offer":
            before = Counter(ticket.fairness_id for ticket in waiting.values())
            ticket = flow.enqueue(request(fairness_id), float(at))
            for gone in flow.displaced():
                del waiting[gone.number]
                assert before[gone.fairness_id] == max(before.values()) > before[fairness_id] + 1
            if ticket.final_state is None:
                waiting[ticket.number] = ticket
            else:
                full = len(waiting) == most and before[fairness_id] + 1 >= max(before.values())
                assert full or (len(waiting) * 4 >= most * 3 and before[fairness_id] >= most // len(before))
        elif what == "release":
            ticket = flow.dispatch(float(at), 0.0, 1)
            if ticket is not None:
                del waiting[ticket.number]
        elif waiting:
            ticket = waiting.pop(next(iter(waiting)))
            assert flow.abandon(ticket, float(at))
        assert flow.waiting == len(waiting) <= most
        assert all(ticket.final_state is None for ticket in waiting.values())
    assert (flow.bands[0][1] if flow.bands else 0) == len(waiting)
