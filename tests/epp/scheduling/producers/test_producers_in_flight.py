"""Requests count once from when they are sent until they end, even if events come twice."""

from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.parameters import InFlightParameters
from modelplane.epp.scheduling.producers.in_flight import LOST_AFTER_S, TYPES, InFlightProducer
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse


def pool(count: int = 3) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(count))


def loads(endpoints) -> list[tuple[int, int]]:
    return [(endpoint.requests_in_flight, endpoint.tokens_in_flight) for endpoint in endpoints]


def send(producer, endpoints, request, *, to=0, prefill=None, match=None, now_s=0.0) -> Decision:
    context = SchedulingContext(request, endpoints, now_s, lambda: 0.0)
    if match is not None:
        put_prefix(context, "p", match)
    others = () if prefill is None else (("prefill", (endpoints[prefill],)),)
    decision = Decision(Outcome.PICKED, ((endpoints[to],),), others=others)
    assert producer.pre_request(context, decision) == ()
    return decision


def test_a_request_counts_where_it_is_computed_until_it_ends():
    producer, endpoints = InFlightProducer("p"), pool()
    request = Request("r", prompts=(b"x" * 4000,))
    match = PrefixMatch(16, 64, [4, 0, 100])
    decision = send(producer, endpoints, request, to=0, prefill=1, match=match)
    assert loads(endpoints) == [(1, 1000 - 256), (1, 1000), (0, 0)]
    send(producer, endpoints, request, to=0)
    assert (loads(endpoints)[0], producer.requests) == ((1, 744), 1)
    producer.response_complete(request, decision, EndpointResponse(endpoints[2], 200, 0.0))
    producer.response_complete(request, decision, EndpointResponse(endpoints[0], 200, 0.0))
    assert (loads(endpoints), producer.requests) == ([(0, 0)] * 3, 0)


def test_a_prompt_that_is_cached_as_a_whole_weighs_nothing():
    producer, endpoints = InFlightProducer("p"), pool()
    send(producer, endpoints, Request("r", prompts=(b"x" * 4000,)), to=2, match=PrefixMatch(16, 64, [4, 0, 100]))
    assert (loads(endpoints), producer.reads_bodies) == ([(0, 0), (0, 0), (1, 0)], False)


def test_a_prompt_weighs_until_the_response_begins():
    producer = InFlightProducer("p", InFlightParameters(add_estimated_output_tokens=True))
    endpoints = pool()
    request = Request("r", prompts=(b"x" * 400,), max_output_tokens=7)
    decision = send(producer, endpoints, request, to=0, prefill=1)
    assert loads(endpoints) == [(1, 107), (1, 100), (0, 0)]
    for _ in range(2):
        producer.response_received(request, decision)
        assert loads(endpoints) == [(1, 7), (0, 0), (0, 0)]
    producer.response_complete(request, decision, EndpointResponse(endpoints[0], 200, 0.0))
    producer.response_received(request, decision)
    assert loads(endpoints) == [(0, 0)] * 3


def test_a_complete_response_may_not_have_been_received():
    producer = InFlightProducer("p", InFlightParameters(add_estimated_output_tokens=True))
    (endpoint,) = endpoints = pool(1)
    for begins, shown in ((True, 0), (False, 100 + 7)):
        first, second = (Request("r", prompts=(b"x" * 400,), max_output_tokens=7) for _ in range(2))
        decision = send(producer, endpoints, first)
        if begins:
            producer.response_received(first, decision)
        further = send(producer, endpoints, second)
        producer.response_complete(first, decision, EndpointResponse(endpoint, 200, 0.0))
        assert (endpoint.tokens_in_flight, endpoint.tokens_shown) == (107, shown)
        producer.response_received(second, further)
        producer.response_complete(second, further, EndpointResponse(endpoint, 200, 0.0))


def test_output_is_estimated_where_wanted():
    endpoints = pool(1)
    for parameters, most, expected in (
        (InFlightParameters(add_estimated_output_tokens=True), 0, 250),
        (InFlightParameters(add_estimated_output_tokens=True, max_estimated_output_tokens=20), 0, 120),
        (InFlightParameters(add_estimated_output_tokens=True), 7, 107),
        (InFlightParameters(), 7, 100),
    ):
        producer = InFlightProducer("p", parameters)
        request = Request("r", prompts=(b"x" * 400,), max_output_tokens=most)
        send(producer, endpoints, request)
        assert loads(endpoints) == [(1, expected)]
        producer.release(request)


def test_requests_with_the_same_id_are_different_requests():
    producer, endpoints = InFlightProducer("p"), pool(1)
    requests = [Request("same"), Request("same")]
    for request in requests:
        send(producer, endpoints, request)
    assert loads(endpoints) == [(2, 0)]
    assert [producer.release(request) for request in (*requests, *requests)] == [True, True, False, False]


def test_a_request_whose_end_is_lost_is_given_up():
    producer, endpoints = InFlightProducer("p"), pool(1)
    send(producer, endpoints, Request("lost"), now_s=1.0)
    send(producer, endpoints, Request("late"), now_s=1.0 + LOST_AFTER_S)
    before = loads(endpoints)
    send(producer, endpoints, Request("later"), now_s=2.0 + LOST_AFTER_S)
    assert (LOST_AFTER_S, before, loads(endpoints)) == (24 * 3600.0, [(2, 0)], [(2, 0)])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 2)), max_size=60))
def test_counts_are_those_of_the_requests_not_ended(steps):
    producer, endpoints = InFlightProducer("p"), pool()
    requests = [Request(str(number), prompts=(b"x" * number * 8,)) for number in range(8)]
    open_at: dict[int, int] = {}
    for sends, number, place in steps:
        if sends:
            send(producer, endpoints, requests[number], to=place)
            open_at.setdefault(number, place)
        else:
            assert producer.release(requests[number]) == (open_at.pop(number, None) is not None)
        expected = [
            (sum(1 for at in open_at.values() if at == place), sum(2 * n for n, at in open_at.items() if at == place))
            for place in range(3)
        ]
        assert loads(endpoints) == expected


def test_what_is_produced():
    assert [(each.name, each.produces, each.consumes) for each in TYPES] == [
        ("inflight-load-producer", "in-flight load", ())
    ]
