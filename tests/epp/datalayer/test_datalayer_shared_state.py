"""What processes share: counts of others on our own endpoints, and their prompts in our index."""

import msgspec

from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.datalayer.shared_state import SentPrompt, SharedLoads, SharedState
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.parameters import ApproxPrefixParameters
from modelplane.epp.scheduling.producers.approx_producer import ApproxPrefixProducer
from modelplane.epp.scheduling.requests import Request

PROMPT = b"You are a helpful assistant. " * 200


def test_an_endpoint_that_joins_or_is_replaced_has_what_peers_said_of_it():
    shared, peer = SharedLoads(), object()
    first = Endpoint("pool/a", "10.0.0.1:8000")
    shared.receive(peer, {"pool/a": (2, 20), "pool/late": (1, 10)})
    shared.follow((first,))
    assert (first.requests_in_flight, first.tokens_in_flight) == (2, 20)
    again, late = Endpoint("pool/a", "10.0.0.9:8000"), Endpoint("pool/late", "10.0.0.3:8000")
    shared.follow((again, late))
    assert [(each.requests_in_flight, each.tokens_in_flight) for each in (again, late)] == [(2, 20), (1, 10)]
    late.count(5, 50)
    assert shared.own((again, late)) == {"pool/late": (5, 50)}
    shared.forget(peer)
    assert [(each.requests_in_flight, each.tokens_in_flight) for each in (again, late)] == [(0, 0), (5, 50)]


def test_loads_that_are_switched_off_leave_the_endpoints_and_come_back():
    shared, peer, endpoint = SharedLoads(), object(), Endpoint("pool/a", "10.0.0.1:8000")
    shared.follow((endpoint,))
    endpoint.count(1, 10)
    shared.receive(peer, {"pool/a": (2, 20)})
    shared.switch(on=False)
    assert (endpoint.requests_in_flight, endpoint.tokens_in_flight, shared.own((endpoint,))) == (1, 10, {})
    shared.receive(peer, {"pool/a": (5, 50)})
    assert endpoint.requests_in_flight == 1
    shared.switch(on=True)
    assert (endpoint.requests_in_flight, shared.own((endpoint,))) == (6, {"pool/a": (1, 10)})


def test_a_load_of_nothing_is_not_kept():
    shared = SharedLoads()
    shared.receive("peer", {"pool/a": (2, 20), "pool/gone": (1, 1)})
    shared.receive("peer", {"pool/a": (0, 0)})
    assert (shared.received("peer"), shared.received("other"), shared.peers) == ({"pool/gone": (1, 1)}, {}, 1)


def state():
    endpoints = Endpoint("pool/a", "10.0.0.1:80"), Endpoint("pool/b", "10.0.0.2:80")
    made, producer = SharedState(StaticEndpoints(endpoints)), ApproxPrefixProducer("p", ApproxPrefixParameters())
    made.follow()
    made.share_prompts(producer)
    return made, producer, endpoints


def test_only_what_changed_is_sent():
    made, _, (first, second) = state()
    first.count(2, 50)
    steps = [made.changed_loads(made.own_loads())]
    second.count(1, 5)
    steps.append(made.changed_loads(made.own_loads()))
    first.count(-2, -50)
    steps += [made.changed_loads(made.own_loads()), made.changed_loads(made.own_loads())]
    assert steps == [{"pool/a": (2, 50)}, {"pool/b": (1, 5)}, {"pool/a": (0, 0)}, {}]


def sent(made, producer, endpoint):
    request = Request(id="r", model="m", prompts=(PROMPT,))
    match = producer.index.match(request, made[2])
    producer.on_record((endpoint,), match)


def matched(made):
    request = Request(id="r", model="m", prompts=(PROMPT,))
    return [held > 0 for held in made[1].index.match(request, made[2]).matched]


def test_a_prompt_is_learned_and_passed_on():
    one, other, passed = state(), state(), []
    sent(one, one[1], one[2][1])
    prompts = one[0].take_prompts()
    other[0].on_prompts = passed.append
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(prompts), type=tuple[SentPrompt, ...])
    other[0].receive("peer", {}, decoded)
    other[0].receive("peer", {"pool/a": (1, 1)}, ())
    assert (matched(other), matched(one)) == ([False, True], [False, False])
    assert (passed, one[0].take_prompts()) == ([decoded], ())


def test_prompts_that_are_too_many_or_of_no_endpoint_are_left_out():
    made, producer, _ = state()
    made.add_prompts([SentPrompt("pool/a", 64, ((1,),), (1,))] * 1500)
    assert len(made.take_prompts()) == 1000
    made.receive("peer", {}, (SentPrompt("pool/none", 64, ((1,),), (1,)), SentPrompt("pool/a", 64, ((1,),), ())))
    assert producer.index.landmarks == 0
