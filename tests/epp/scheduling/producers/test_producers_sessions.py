"""A session stays with its endpoint while that is there and the session is used."""

import msgspec
import pytest

from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.sessions import (
    SESSION,
    TYPES,
    SessionAffinityFilter,
    SessionAffinityParameters,
    SessionAffinityScorer,
    SessionBindings,
    SessionIdParameters,
    SessionIdProducer,
    endpoint_of,
    token_of,
)
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.scheduling.units import convert
from modelplane.framework.registry import NoParameters, plugin_type

POOL = tuple(Endpoint(f"ns/pod-{i}", f"10.0.0.{i}:8000") for i in range(3))
BY_ID = convert({"strategy": "session_id", "sessionIdConfig": {"evictionTtlSeconds": 10}}, SessionAffinityParameters)


def context_of(headers=None, now_s=0.0, endpoints=POOL) -> SchedulingContext:
    return SchedulingContext(Request("r", headers=headers or {}), endpoints, now_s, lambda: 0.0)


def send(plugin, headers, place, now_s=0.0, endpoints=POOL) -> None:
    context = context_of(headers, now_s, endpoints)
    plugin.pre_request(context, Decision(Outcome.PICKED, ((POOL[place],),)))


def admitted(plugin, context) -> list[str]:
    return [endpoint.name for endpoint in context.endpoints if plugin.refuse(context, endpoint) is None]


def test_a_session_is_bound_until_it_was_not_used_for_a_while():
    scorer = SessionAffinityScorer("s", BY_ID)
    mine = {"x-session-id": "mine"}
    assert list(scorer.score(context_of(mine), POOL)) == [0.0, 0.0, 0.0]
    send(scorer, mine, 1, now_s=0.0)
    send(scorer, mine, 2, now_s=9.0)
    assert list(scorer.score(context_of(mine, 18.0), POOL)) == [0.0, 1.0, 0.0]
    assert list(scorer.score(context_of({"x-session-id": "other"}, 18.0), POOL)) == [0.0, 0.0, 0.0]
    assert list(scorer.score(context_of(mine, 19.0), POOL)) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("later_s", "scores"), [(299.0, [0.0, 1.0, 0.0]), (300.0, [0.0, 0.0, 0.0])])
def test_a_session_is_bound_for_five_minutes_by_default(later_s, scores):
    scorer = SessionAffinityScorer("s", convert({"strategy": "session_id"}, SessionAffinityParameters))
    send(scorer, {"x-session-id": "mine"}, 1)
    assert list(scorer.score(context_of({"x-session-id": "mine"}, later_s), POOL)) == scores


def test_a_session_may_be_bound_for_a_moment():
    parameters = {"strategy": "session_id", "sessionIdConfig": {"evictionTtlSeconds": 0.5}}
    scorer = SessionAffinityScorer("s", convert(parameters, SessionAffinityParameters))
    send(scorer, {"x-session-id": "mine"}, 1)
    found = [scorer.bound(context_of({"x-session-id": "mine"}, now_s)) for now_s in (0.4, 0.5)]
    assert found == [POOL[1], None]
    with pytest.raises(msgspec.ValidationError, match="evictionTtlSeconds"):
        convert({"sessionIdConfig": {"evictionTtlSeconds": 0}}, SessionAffinityParameters)


def test_tokens_are_the_strategy_by_default():
    found = convert({"strategy": "encoded_endpoint_header"}, SessionAffinityParameters)
    assert found == SessionAffinityParameters()


def test_a_session_is_bound_anew_when_its_endpoint_is_absent():
    scorer = SessionAffinityScorer("s", BY_ID)
    mine = {"x-session-id": "mine"}
    send(scorer, mine, 1)
    send(scorer, mine, 2, endpoints=(POOL[0], POOL[2]))
    assert list(scorer.score(context_of(mine), POOL)) == [0.0, 0.0, 1.0]
    send(scorer, {"x-session-id": "other"}, 0)
    scorer.endpoints_changed(POOL[:2])
    assert (list(scorer.score(context_of(mine), POOL)), len(scorer.bindings)) == ([0.0, 0.0, 0.0], 1)
    assert list(scorer.score(context_of({"x-session-id": "other"}), POOL)) == [1.0, 0.0, 0.0]


def test_the_filter_keeps_the_bound_endpoint_alone_and_else_all():
    keeper = SessionAffinityFilter("f", BY_ID)
    mine = {"x-session-id": "mine"}
    send(keeper, mine, 2)
    assert admitted(keeper, context_of(mine)) == ["ns/pod-2"]
    assert admitted(keeper, context_of({})) == ["ns/pod-0", "ns/pod-1", "ns/pod-2"]
    assert admitted(keeper, context_of(mine, endpoints=POOL[:2])) == ["ns/pod-0", "ns/pod-1"]
    assert keeper.refuse(context_of(mine), POOL[0]).reason == "the session is bound to ns/pod-2"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (token_of(POOL[1]), ["ns/pod-1"]),
        (token_of(Endpoint("ns/gone", "10.0.0.9:80")), ["ns/pod-0", "ns/pod-1", "ns/pod-2"]),
        ("no token", ["ns/pod-0", "ns/pod-1", "ns/pod-2"]),
        ("", ["ns/pod-0", "ns/pod-1", "ns/pod-2"]),
    ],
)
def test_a_token_names_its_endpoint(token, expected):
    assert admitted(SessionAffinityFilter("f"), context_of({"x-session-token": token})) == expected


def test_a_token_is_given_with_the_response():
    text = (
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"
        "- {type: session-affinity-filter}\n"
        "- {type: session-affinity-scorer, parameters: {strategy: session_id}}\n"
    )
    scheduler = Scheduler(load(text).build())
    first = scheduler.schedule(Request("r"), POOL, 0.0, lambda: 0.5)
    assert first.response_headers == (("x-session-token", token_of(first.picked)),)
    again = scheduler.schedule(Request("r", headers=dict(first.response_headers)), POOL, 0.0, lambda: 0.1)
    assert again.picked is first.picked


@pytest.mark.parametrize(("header", "expected"), [("X-Mine", "x-mine"), ("", "x-session-token")])
def test_the_header_of_tokens_is_configured(header, expected):
    parameters = convert({"encodedEndpointHeaderConfig": {"header": header}}, SessionAffinityParameters)
    plugin, decision = SessionAffinityFilter("f", parameters), Decision(Outcome.PICKED, ((POOL[1],),))
    assert plugin.response_headers(context_of(), decision) == ((expected, token_of(POOL[1])),)
    assert admitted(plugin, context_of({expected: token_of(POOL[1])})) == ["ns/pod-1"]


class Mistaken:
    """A teller that fails."""

    name = "mistaken"

    def __init__(self, _name="", _parameters=None):
        pass

    def response_headers(self, _context, _decision):
        raise ValueError("no")


def test_a_failing_response_headers_plugin_does_not_fail_the_request():
    known = builtin_registry().extended([plugin_type("mistaken", Mistaken, NoParameters)])
    text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: mistaken}]\n"
    scheduler = Scheduler(load(text, registry=known).build())
    decision = scheduler.schedule(Request("r"), POOL, 0.0, lambda: 0.5)
    assert (decision.outcome, decision.response_headers) == (Outcome.PICKED, ())
    assert scheduler.faults == {"mistaken": 1}


def test_a_session_may_be_bound_to_the_pick_of_another_profile():
    parameters = convert({"strategy": "session_id", "profileName": "prefill"}, SessionAffinityParameters)
    scorer = SessionAffinityScorer("s", parameters)
    mine = {"x-session-id": "mine"}
    others = (("encode", (POOL[1],)), ("prefill", (POOL[2],)))
    scorer.pre_request(context_of(mine), Decision(Outcome.PICKED, ((POOL[0],),), others=others))
    assert list(scorer.score(context_of(mine), POOL)) == [0.0, 0.0, 1.0]


def test_the_endpoint_of_a_session_is_captured_by_name_and_restored():
    mine = {"x-session-id": "mine"}
    scorer = SessionAffinityScorer("s", BY_ID)
    send(scorer, mine, 1)
    bound, free = context_of(mine), context_of({})
    assert scorer.capture(bound) is None
    for context in (bound, free):
        scorer.score(context, POOL)
    captured = [scorer.capture(context) for context in (bound, free)]
    assert captured == ["ns/pod-1", ""]
    found = []
    for name in (*captured, "ns/gone"):
        replayed = context_of(mine)
        fresh = SessionAffinityScorer("s", BY_ID)
        fresh.restore(replayed, name)
        found.append(fresh.score(replayed, POOL))
    assert list(map(list, found)) == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_session_id_is_not_captured_only_that_there_is_one():
    producer = SessionIdProducer("p", SessionIdParameters(header_name="X-Chat"))
    secret, none, replayed = context_of({"x-chat": "secret"}), context_of(), context_of()
    for context in (secret, none):
        producer.produce(context)
    captured = [producer.capture(context) for context in (secret, none)]
    producer.restore(replayed, captured[0])
    assert (captured, replayed.get(SESSION)) == (["some session", None], "some session")


def test_tokens():
    assert endpoint_of(token_of(POOL[0])) == "ns/pod-0"
    bad = ("", "é", "====", "/w==", f"{token_of(POOL[0])[:4]} {token_of(POOL[0])[4:]}")
    assert [endpoint_of(token) for token in bad] == [""] * 5


def test_bindings_are_bounded():
    bindings = SessionBindings(100.0, most=3)
    for number in range(10):
        bindings.bind(str(number), POOL[0], float(number))
    assert [bindings.find(str(number), 10.0) is not None for number in range(6, 10)] == [False, True, True, True]
    bindings.bind("late", POOL[0], 1000.0)
    bindings.bind("just alive", POOL[0], 1099.0)
    assert len(bindings) == 2
    bindings.bind("next", POOL[0], 1100.0)
    assert [bindings.find(name, 1100.0) for name in ("late", "just alive", "next")] == [None, POOL[0], POOL[0]]
    assert len(bindings) == 2


@pytest.mark.parametrize(
    ("parameters", "headers", "expected"),
    [
        ({"headerName": "X-Chat"}, {"x-chat": "a"}, "a"),
        ({"headerName": "X-Chat"}, {}, None),
        ({"cookieName": "sid"}, {"cookie": 'theme=dark; sid="b=1"; x'}, "b=1"),
        ({"cookieName": "sid"}, {"cookie": "other=1"}, None),
    ],
)
def test_a_producer_finds_the_session(parameters, headers, expected):
    context = context_of(headers)
    SessionIdProducer("p", convert(parameters, SessionIdParameters)).produce(context)
    assert context.get(SESSION) == expected


def test_what_a_producer_found_can_bind():
    parameters = convert(
        {
            "strategy": "session_id",
            "sessionIdConfig": {"sources": [{"header": "x-a"}, {"attribute": "SessionID", "producer": "p"}]},
        },
        SessionAffinityParameters,
    )
    scorer = SessionAffinityScorer("s", parameters)
    for place in (1, 0):
        context = context_of()
        context.put(SESSION, "found")
        scorer.pre_request(context, Decision(Outcome.PICKED, ((POOL[place],),)))
    assert scorer.score(context, POOL) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("parameters", [{}, {"headerName": "a", "cookieName": "b"}])
def test_exactly_one_session_source(parameters):
    with pytest.raises(msgspec.ValidationError):
        convert(parameters, SessionIdParameters)


@pytest.mark.parametrize("headers", [{}, {"x-session-id": "mine"}])
def test_a_binding_by_session_adds_no_headers(headers):
    scorer, context = SessionAffinityScorer("s", BY_ID), context_of(headers)
    decision = Decision(Outcome.PICKED, ((POOL[1],),))
    assert (scorer.pre_request(context, decision), scorer.response_headers(context, decision)) == ((), ())


def test_what_is_produced():
    assert [(each.name, each.produces, each.consumes) for each in TYPES] == [
        ("session-affinity-scorer", "", ()),
        ("session-affinity-filter", "", ()),
        ("session-id-producer", "session", ()),
    ]
