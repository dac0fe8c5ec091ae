"""Exchanges in every mode of Envoy: pick requests and replies, in order."""

import json

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server import messages
from modelplane.epp.server.exchange import Budget, Exchange, ExchangeStage
from modelplane.epp.server.immediate_response import body as error_body
from modelplane.epp.server.messages import UNCHANGED
from modelplane.epp.server.processing_request import BodyMode, ProcessingPhase, ProcessingRequest
from modelplane.epp.server.steps import NOTHING, ExchangeStep, PickRequest, Rename
from tests.support.extproc_protos import load

PROTOS = load()
RESPONSE = PROTOS["ProcessingResponse"]
REQUEST = PROTOS["ProcessingRequest"]

A = Endpoint("ns/a", "10.0.0.1:8000")
B = Endpoint("ns/b", "[fd00::2]:8000")
PICKED = Decision(Outcome.PICKED, ((A,), (B,)), set_headers=(("x-a", "1"),), remove_headers=("x-prefiller-host-port",))
WHERE = ("10.0.0.1:8000,[fd00::2]:8000", (("x-a", "1"),), ("x-prefiller-host-port",))
HEADERS = {":method": "POST", ":path": "/v1/chat/completions"}
BIG = bytes(range(256)) * 600


def begins(mode, *, ends=False, response=BodyMode.NONE, metadata=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ProcessingRequest(
        ProcessingPhase.REQUEST_HEADERS,
        HEADERS | named,
        ends=ends,
        metadata=metadata,
        request_mode=mode,
        response_mode=response,
    )


def piece(data, *, ends=False, phase=ProcessingPhase.REQUEST_BODY):
    return ProcessingRequest(phase, body=data, ends=ends)


def steps(*incoming, exchange=None, limit=1 << 20):
    exchange = exchange or Exchange(limit)
    return exchange, [exchange.feed(each, 7.0) for each in incoming]


def asks(body=b"", *, whole=True, subset=None, headers=HEADERS):
    return ExchangeStep(pick_request=PickRequest(headers, body, whole, subset))


def passed(data, *, ends, phase=ProcessingPhase.REQUEST_BODY):
    return messages.stream_body(phase, data, ends=ends)


def test_headers_only():
    exchange, found = steps(begins(BodyMode.NONE))
    assert found == [asks(whole=False)]
    assert exchange.decided(PICKED) == ExchangeStep((messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *WHERE),))
    assert exchange.stage is ExchangeStage.ROUTED


@pytest.mark.parametrize("mode", [BodyMode.BUFFERED, BodyMode.FULL_DUPLEX, BodyMode.NONE, -1])
def test_a_request_that_ends_with_its_headers_is_decided_by_them_and_keeps_its_subset(mode):
    exchange, found = steps(begins(mode, ends=True, metadata=hint(["10.0.0.1:8000"])))
    assert found == [asks(subset=("10.0.0.1:8000",))]
    assert exchange.decided(PICKED) == ExchangeStep((messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *WHERE),))


def test_buffered():
    exchange, found = steps(begins(BodyMode.BUFFERED), piece(b"abc", ends=True))
    assert found == [ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_HEADERS],)), asks(b"abc")]
    assert exchange.decided(PICKED) == ExchangeStep((messages.mutate_request(ProcessingPhase.REQUEST_BODY, *WHERE),))


def test_buffered_in_part_is_not_the_whole_body():
    _, found = steps(begins(BodyMode.BUFFERED_PARTIAL), piece(b"abc"))
    assert found == [ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_HEADERS],)), asks(b"abc", whole=False)]


def test_streamed_is_decided_by_headers_and_its_body_passes():
    exchange, found = steps(begins(BodyMode.STREAMED))
    assert found == [asks(whole=False)]
    exchange.decided(PICKED)
    _, found = steps(piece(b"abc"), piece(b"", ends=True), exchange=exchange)
    assert found == [ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_BODY],))] * 2


@pytest.mark.parametrize("mode", [BodyMode.FULL_DUPLEX, -1], ids=["given", "absent"])
def test_full_duplex(mode):
    exchange, found = steps(begins(mode), piece(b"ab"), piece(b"c", ends=True))
    assert found == [NOTHING, NOTHING, asks(b"abc")]
    assert exchange.decided(PICKED) == ExchangeStep(
        (messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *WHERE), passed(b"abc", ends=True))
    )


def test_full_duplex_cuts_what_it_sends_back():
    exchange, _ = steps(begins(BodyMode.FULL_DUPLEX), piece(BIG, ends=True))
    replies = exchange.decided(PICKED).replies
    bodies = [RESPONSE.FromString(reply).request_body.response.body_mutation.streamed_response for reply in replies[1:]]
    assert b"".join(each.body for each in bodies) == BIG
    assert [each.end_of_stream for each in bodies] == [False, False, True]
    assert max(len(each.body) for each in bodies) < 64_000


@given(st.integers(0, 200_000))
def test_pieces_are_whole_and_only_the_last_ends(size):
    exchange, _ = steps(begins(BodyMode.FULL_DUPLEX), piece(b"x" * size, ends=True))
    parts = [
        RESPONSE.FromString(reply).request_body.response.body_mutation.streamed_response
        for reply in exchange.decided(PICKED).replies[1:]
    ]
    assert sum(len(part.body) for part in parts) == size
    assert [part.end_of_stream for part in parts] == [False] * (len(parts) - 1) + [True]
    assert all(part.body for part in parts) or size == 0


def test_full_duplex_with_an_empty_body():
    exchange, found = steps(begins(BodyMode.FULL_DUPLEX), piece(b"", ends=True))
    assert found[1] == asks(b"")
    assert exchange.decided(PICKED).replies[1:] == (passed(b"", ends=True),)


def test_full_duplex_that_ends_with_trailers():
    trailers = ProcessingRequest(ProcessingPhase.REQUEST_TRAILERS, ends=True)
    exchange, found = steps(begins(BodyMode.FULL_DUPLEX), piece(b"abc"), trailers)
    assert found == [NOTHING, NOTHING, asks(b"abc")]
    assert exchange.decided(PICKED).replies == (
        messages.mutate_request(ProcessingPhase.REQUEST_HEADERS, *WHERE),
        passed(b"abc", ends=False),
        UNCHANGED[ProcessingPhase.REQUEST_TRAILERS],
    )


def test_trailers_elsewhere_pass():
    exchange, _ = steps(begins(BodyMode.NONE))
    exchange.decided(PICKED)
    _, found = steps(
        ProcessingRequest(ProcessingPhase.REQUEST_TRAILERS),
        ProcessingRequest(ProcessingPhase.RESPONSE_TRAILERS),
        exchange=exchange,
    )
    assert found == [
        ExchangeStep((UNCHANGED[ProcessingPhase.REQUEST_TRAILERS],)),
        ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_TRAILERS],)),
    ]


def test_a_body_for_another_model():
    rename = Rename(b"changed", "asked", "served")
    exchange, _ = steps(begins(BodyMode.BUFFERED), piece(b"abc", ends=True))
    assert exchange.decided(PICKED, InferenceApi.CHAT, rename).replies == (
        messages.mutate_request_and_body(*WHERE, b"changed"),
    )
    exchange, _ = steps(begins(BodyMode.FULL_DUPLEX), piece(b"abc", ends=True))
    assert exchange.decided(PICKED, InferenceApi.CHAT, rename).replies[1:] == (passed(b"changed", ends=True),)


@pytest.mark.parametrize(
    ("incoming", "sentence"),
    [
        ([piece(b"a")], "a request body came before its headers"),
        ([ProcessingRequest(ProcessingPhase.REQUEST_TRAILERS)], "request trailers came before headers"),
        ([begins(BodyMode.FULL_DUPLEX), begins(BodyMode.FULL_DUPLEX)], "request headers came twice"),
    ],
)
def test_orders_that_break_the_protocol(incoming, sentence):
    _, found = steps(*incoming)
    assert found[-1] == ExchangeStep(broken=sentence)


def test_messages_that_wait_for_no_answer_or_are_not_known():
    exchange, found = steps(
        ProcessingRequest(ProcessingPhase.REQUEST_HEADERS, HEADERS, observed=True), ProcessingRequest()
    )
    assert found == [NOTHING, NOTHING]
    assert exchange.stage is ExchangeStage.BEGINNING


def test_only_the_first_answer_counts():
    exchange, _ = steps(begins(BodyMode.NONE))
    exchange.decided(PICKED)
    assert exchange.decided(PICKED) == NOTHING


def told(step):
    (reply,) = step.replies
    immediate = RESPONSE.FromString(reply).immediate_response
    headers = {option.header.key: option.header.raw_value.decode() for option in immediate.headers.set_headers}
    return immediate.status.code, headers, json.loads(immediate.body), immediate.details


REFUSALS = {
    Outcome.MALFORMED: (400, {}, "invalid_request_error", "invalid_request"),
    Outcome.UNKNOWN_MODEL: (404, {}, "invalid_request_error", "model_not_found"),
    Outcome.NOT_CACHED: (412, {}, "invalid_request_error", "not_cached"),
    Outcome.TOO_LARGE: (413, {}, "invalid_request_error", "too_large"),
    Outcome.SATURATED: (
        429,
        {"x-llm-d-request-dropped-reason": "rejected-saturated", "retry-after": "1"},
        "rate_limit_error",
        "saturated",
    ),
    Outcome.EXPIRED: (
        429,
        {"x-llm-d-request-dropped-reason": "rejected-ttl-expired", "retry-after": "1"},
        "rate_limit_error",
        "expired",
    ),
    Outcome.EVICTED: (
        429,
        {"x-llm-d-request-dropped-reason": "evicted", "retry-after": "1"},
        "rate_limit_error",
        "evicted",
    ),
    Outcome.NO_ENDPOINTS: (
        503,
        {"x-llm-d-request-dropped-reason": "rejected-no-endpoints", "retry-after": "1"},
        "server_error",
        "no_endpoints",
    ),
    Outcome.EXCLUDED: (
        503,
        {"x-llm-d-request-dropped-reason": "rejected-no-endpoints", "retry-after": "1"},
        "server_error",
        "excluded",
    ),
    Outcome.STOPPING: (503, {"retry-after": "1"}, "server_error", "stopping"),
}


@pytest.mark.parametrize(("outcome", "expected"), REFUSALS.items())
def test_what_clients_read_when_nothing_is_picked(outcome, expected):
    status, headers, kind, code = expected
    exchange, _ = steps(begins(BodyMode.FULL_DUPLEX), piece(b"abc", ends=True))
    step = exchange.decided(Decision(outcome, why="because"), InferenceApi.CHAT)
    assert step.over
    assert told(step) == (
        status,
        {"content-type": "application/json", **headers},
        {"error": {"message": "because", "type": kind, "param": None, "code": code}},
        outcome.title,
    )
    assert exchange.feed(piece(b"more"), 0.0) == NOTHING


def test_every_outcome_that_refuses_is_in_the_table():
    assert set(Outcome) - set(REFUSALS) == {Outcome.PICKED, Outcome.FAULT, Outcome.ABANDONED}


def test_internal_errors_are_not_shown():
    exchange, _ = steps(begins(BodyMode.NONE))
    status, _, error, _ = told(
        exchange.decided(Decision(Outcome.FAULT, why="queue-scorer raised KeyError"), InferenceApi.CHAT)
    )
    assert (status, error["error"]["message"]) == (500, "the endpoint picker failed")


def test_a_disconnected_client_gets_no_response():
    exchange, _ = steps(begins(BodyMode.NONE))
    assert exchange.decided(Decision(Outcome.ABANDONED)) == ExchangeStep(over=True)


def test_errors_have_the_shape_of_the_api():
    decision = Decision(Outcome.SATURATED, why="full")
    assert json.loads(error_body(decision, InferenceApi.MESSAGES)) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "full"},
    }


@pytest.mark.parametrize(
    ("incoming", "sentence"),
    [
        ([begins(BodyMode.FULL_DUPLEX, content_length="11")], "the body has 11 bytes; 10 are accepted"),
        ([begins(BodyMode.BUFFERED, content_length="9" * 40)], f"the body has {'9' * 40} bytes; 10 are accepted"),
        (
            [begins(BodyMode.FULL_DUPLEX), piece(b"123456"), piece(b"78901")],
            "the body has more than 10 bytes; 10 are accepted",
        ),
    ],
    ids=["declared", "declared beyond reason", "received"],
)
def test_bodies_that_are_too_large(incoming, sentence):
    exchange, found = steps(*incoming, limit=10)
    refused = found[-1].pick_request.refused
    assert (refused.outcome, refused.why) == (Outcome.TOO_LARGE, sentence)
    answered = exchange.decided(refused, InferenceApi.MESSAGES)
    status, _, error, _ = told(answered)
    assert (status, error["error"]) == (413, {"type": "request_too_large", "message": sentence})
    assert answered.over


def test_bodies_of_all_together_have_a_limit():
    budget = Budget(10)
    first, second = (Exchange(100, budget=budget) for _ in range(2))
    steps(begins(BodyMode.FULL_DUPLEX), piece(b"123456"), exchange=first)
    _, found = steps(begins(BodyMode.FULL_DUPLEX), piece(b"1234"), piece(b"5"), exchange=second)
    answered = second.decided(found[-1].pick_request.refused)
    assert (told(answered)[0], answered.over, budget.used) == (429, True, 6)
    steps(piece(b"", ends=True), exchange=first)
    assert budget.used == 6
    first.decided(PICKED)
    first.release()
    assert budget.used == 0


def test_what_an_exchange_held_is_given_back_once_when_it_breaks_off():
    budget = Budget(10)
    exchange = Exchange(100, budget=budget)
    steps(begins(BodyMode.FULL_DUPLEX), piece(b"123456"), exchange=exchange)
    exchange.release()
    exchange.release()
    assert budget.used == 0


@pytest.mark.parametrize(
    ("incoming", "broken", "outcome"),
    [
        ([], "", None),
        ([], "not a message", Outcome.MALFORMED),
        ([begins(BodyMode.FULL_DUPLEX)], "", Outcome.ABANDONED),
        ([begins(BodyMode.FULL_DUPLEX), piece(b"1")], "headers came twice", Outcome.MALFORMED),
        ([begins(BodyMode.FULL_DUPLEX), piece(b"1", ends=True)], "", None),
    ],
    ids=["nothing came", "nothing that can be read", "it breaks off", "it breaks the protocol", "it was decided"],
)
def test_an_undecided_request_has_an_outcome(incoming, broken, outcome):
    exchange, _ = steps(*incoming)
    found = exchange.abort(broken)
    assert (found and found.refused.outcome) == outcome
    assert exchange.abort(broken) is None or outcome is None


@pytest.mark.parametrize("length", ["ten", "-1", "", "10", "\xb2\xb2\xb2"])
def test_absent_or_correct_lengths(length):
    _, found = steps(begins(BodyMode.FULL_DUPLEX, content_length=length), limit=10)
    assert found == [NOTHING]


def hint(value, namespace="envoy.lb.subset_hint", key="x-gateway-destination-endpoint-subset"):
    request = REQUEST()
    request.metadata_context.filter_metadata.add(key=namespace).value.update({key: value})
    return messages.read(request.SerializeToString()).metadata


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10.0.0.1:8000", ("10.0.0.1:8000",)),
        ("10.0.0.1:8000, [fd00::2]:8000", ("10.0.0.1:8000", "[fd00::2]:8000")),
        (["10.0.0.1:8000", "[fd00::2]:8000"], ("10.0.0.1:8000", "[fd00::2]:8000")),
        ([], ()),
        ("", ()),
        (5, ()),
        ({"a": 1}, ()),
    ],
    ids=["text", "texts", "list", "empty list", "empty text", "number", "struct"],
)
def test_subset_hints(value, expected):
    _, found = steps(begins(BodyMode.NONE, metadata=hint(value)))
    assert found == [asks(whole=False, subset=expected)]


def test_no_hint_and_a_hint_elsewhere_allow_all():
    _, found = steps(begins(BodyMode.NONE, metadata=hint("10.0.0.1:80", namespace="envoy.lb")))
    assert found == [asks(whole=False)]


def response(status="200", kind="application/json", metadata=b""):
    headers = {":status": status, "content-type": kind}
    return ProcessingRequest(ProcessingPhase.RESPONSE_HEADERS, headers, metadata=metadata)


def sent_on(*, response_mode=BodyMode.FULL_DUPLEX, rename=None, decision=PICKED, **headers):
    exchange = Exchange(1 << 20)
    exchange.feed(begins(BodyMode.NONE, response=response_mode, **headers), 0.0)
    exchange.decided(decision, InferenceApi.CHAT, rename)
    return exchange


def test_a_response_passes_unchanged():
    exchange = sent_on()
    _, found = steps(
        response("503"),
        piece(b"ab", phase=ProcessingPhase.RESPONSE_BODY),
        piece(b"", ends=True, phase=ProcessingPhase.RESPONSE_BODY),
        exchange=exchange,
    )
    assert found == [
        ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_HEADERS],)),
        ExchangeStep((passed(b"ab", ends=False, phase=ProcessingPhase.RESPONSE_BODY),)),
        ExchangeStep((passed(b"", ends=True, phase=ProcessingPhase.RESPONSE_BODY),)),
    ]
    assert (exchange.status, exchange.first_byte_s, exchange.usage) == (503, 7.0, ResponseUsage())


@pytest.mark.parametrize("mode", [BodyMode.BUFFERED, BodyMode.STREAMED])
def test_bodies_that_are_not_ours_to_send_back_pass(mode):
    _, found = steps(
        response(), piece(b"ab", phase=ProcessingPhase.RESPONSE_BODY), exchange=sent_on(response_mode=mode)
    )
    assert found[1] == ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_BODY],))


def test_no_header_is_added_to_responses():
    _, found = steps(response(), exchange=sent_on())
    assert MessageToDict(RESPONSE.FromString(found[0].replies[0])) == {"responseHeaders": {}}


def test_usage_is_read_where_bodies_are_shown():
    events = [b'data: {"usage":{"prompt_tok', b'ens":3,"completion_tokens":4}}\n\n']
    exchange = sent_on()
    steps(
        response(kind="text/event-stream; charset=utf-8"),
        *(piece(event, phase=ProcessingPhase.RESPONSE_BODY) for event in events),
        exchange=exchange,
    )
    assert exchange.usage == ResponseUsage(3, 4, -1)


def test_what_a_decision_has_for_the_client_goes_with_the_response():
    decision = PICKED.changed(response_headers=(("x-session-token", "abc"),))
    _, found = steps(response(), exchange=sent_on(decision=decision))
    mutation = MessageToDict(RESPONSE.FromString(found[0].replies[0]))["responseHeaders"]["response"]["headerMutation"]
    assert [each["header"]["key"] for each in mutation["setHeaders"]] == ["x-session-token"]


def test_an_exchange_that_is_evicted_is_answered_for_its_endpoint():
    exchange = sent_on()
    step = exchange.evict()
    answer = MessageToDict(RESPONSE.FromString(step.replies[0]))["immediateResponse"]
    assert (answer["status"]["code"], step.over, exchange.status) == (429, True, 429)
    assert exchange.evict() == ExchangeStep()


@pytest.mark.parametrize(("status", "expected"), [("", 0), ("abc", 0), ("\xb2", 0), ("404", 404)])
def test_the_status_is_that_of_http(status, expected):
    exchange = sent_on()
    steps(response(status), exchange=exchange)
    assert exchange.status == expected


def served_by(address):
    return hint(address, "envoy.lb", "x-gateway-destination-endpoint-served")


def test_the_serving_endpoint_is_returned():
    exchange = sent_on()
    _, found = steps(response(metadata=served_by("10.0.0.9:80")), exchange=exchange)
    assert exchange.served == "10.0.0.9:80"
    assert found == [ExchangeStep((UNCHANGED[ProcessingPhase.RESPONSE_HEADERS],))]


def test_a_conformance_test_gets_the_serving_endpoint():
    exchange = sent_on(test_epp_endpoint_selection="10.0.0.9")
    _, found = steps(response(metadata=served_by("10.0.0.9:80")), exchange=exchange)
    assert found == [
        ExchangeStep((messages.mutate_response((("x-conformance-test-served-endpoint", "10.0.0.9:80"),)),))
    ]


@pytest.mark.parametrize("served", [5, ["10.0.0.9:80"], None])
def test_a_serving_endpoint_of_the_wrong_type_is_ignored(served):
    exchange = sent_on()
    steps(response(metadata=served_by(served)), exchange=exchange)
    assert exchange.served == ""


def test_names_of_models_are_put_back_across_pieces():
    exchange = sent_on(rename=Rename(b"{}", "asked", "served"))
    _, found = steps(
        response(),
        piece(b'{"model":"ser', phase=ProcessingPhase.RESPONSE_BODY),
        piece(b'ved"}', phase=ProcessingPhase.RESPONSE_BODY),
        ProcessingRequest(ProcessingPhase.RESPONSE_TRAILERS),
        exchange=exchange,
    )
    assert found[0] == ExchangeStep((messages.mutate_response((), ("content-length",)),))
    streamed = [
        RESPONSE.FromString(reply).response_body.response.body_mutation.streamed_response.body
        for step in found[1:3]
        for reply in step.replies
    ]
    assert b"".join(streamed) == b'{"model":"asked"}'


def test_what_was_held_back_goes_before_the_trailers():
    exchange = sent_on(rename=Rename(b"{}", "asked", "served"))
    _, found = steps(
        response(),
        piece(b'{"mod', phase=ProcessingPhase.RESPONSE_BODY),
        ProcessingRequest(ProcessingPhase.RESPONSE_TRAILERS),
        exchange=exchange,
    )
    assert found[2] == ExchangeStep(
        (passed(b'"mod', ends=False, phase=ProcessingPhase.RESPONSE_BODY), UNCHANGED[ProcessingPhase.RESPONSE_TRAILERS])
    )


def test_names_of_models_in_a_buffered_response():
    exchange = sent_on(rename=Rename(b"{}", "asked", "served"), response_mode=BodyMode.BUFFERED)
    whole = piece(b'{"model": "served"}', ends=True, phase=ProcessingPhase.RESPONSE_BODY)
    _, found = steps(response(), whole, exchange=exchange)
    assert found[1] == ExchangeStep((messages.replace_body(ProcessingPhase.RESPONSE_BODY, b'{"model": "asked"}'),))


anything = st.builds(
    ProcessingRequest,
    phase=st.sampled_from(list(ProcessingPhase)),
    headers=st.dictionaries(
        st.sampled_from([":status", ":path", "content-length", "content-type"]), st.text(max_size=5)
    ),
    body=st.binary(max_size=30),
    ends=st.booleans(),
    request_mode=st.integers(-1, 6),
    response_mode=st.integers(-1, 6),
    observed=st.booleans(),
)


@given(st.lists(anything, max_size=12), st.integers(0, 12))
def test_whatever_envoy_sends_there_is_an_answer_and_one_question_at_most(incoming, answered):
    exchange = Exchange(40)
    requested = 0
    for place, each in enumerate(incoming):
        step = exchange.feed(each, 1.0)
        requested += step.pick_request is not None
        for reply in step.replies:
            RESPONSE.FromString(reply)
        if place == answered:
            exchange.decided(PICKED)
    assert requested <= 1
    assert isinstance(exchange.usage, ResponseUsage)
