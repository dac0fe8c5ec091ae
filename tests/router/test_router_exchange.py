from modelplane.epp.server.exchange import Budget
from modelplane.epp.server.messages import UNCHANGED, replace_body
from modelplane.epp.server.processing_request import BodyMode, ProcessingPhase, ProcessingRequest
from modelplane.router.exchange import FrontExchange, FrontStage
from modelplane.router.front_values import FrontRequest, FrontStep, Rewritten
from modelplane.router.messages import continue_response, route_request, route_request_and_body

HEADERS = {":method": "POST", ":path": "/v1/chat/completions"}
REQUEST_HEADERS, REQUEST_BODY = ProcessingPhase.REQUEST_HEADERS, ProcessingPhase.REQUEST_BODY
RESPONSE_HEADERS, RESPONSE_BODY = ProcessingPhase.RESPONSE_HEADERS, ProcessingPhase.RESPONSE_BODY


def exchange(limit=100):
    return FrontExchange(limit, Budget(1000))


def begin(mode=BodyMode.BUFFERED, *, ends=False):
    return ProcessingRequest(REQUEST_HEADERS, HEADERS, ends=ends, request_mode=int(mode), response_mode=0)


def body(data, *, ends=True):
    return ProcessingRequest(REQUEST_BODY, body=data, ends=ends)


def response(status=200, *, ends=False, **headers):
    return ProcessingRequest(RESPONSE_HEADERS, {":status": str(status), **headers}, ends=ends)


def routed(found, **more):
    found.feed(begin(), 0.0)
    found.feed(body(b"{}"), 0.0)
    return found.routed(Rewritten((("x-a", "b"),), **more))


def test_a_buffered_request_is_decided_at_its_body():
    found = exchange()
    assert found.feed(begin(), 0.0) == FrontStep((UNCHANGED[REQUEST_HEADERS],))
    assert found.feed(body(b"{}"), 0.0) == FrontStep(request=FrontRequest(HEADERS, b"{}"))
    assert found.routed(Rewritten((("x-a", "b"),), ("x-c",))) == (
        route_request(REQUEST_BODY, (("x-a", "b"),), ("x-c",)),
    )


def test_a_body_is_replaced_with_its_length():
    assert routed(exchange(), body=b"new") == (route_request_and_body((("x-a", "b"),), (), b"new"),)


def test_a_request_without_a_body_is_decided_by_its_headers():
    found = exchange()
    assert found.feed(begin(ends=True), 0.0) == FrontStep(request=FrontRequest(HEADERS))
    assert found.routed(Rewritten((("x-a", "b"),))) == (route_request(REQUEST_HEADERS, (("x-a", "b"),), ()),)


def test_without_its_body_a_request_is_not_whole():
    step = exchange().feed(begin(BodyMode.NONE), 0.0)
    assert step == FrontStep(request=FrontRequest(HEADERS, whole=False))


def test_a_body_above_the_limit_is_refused():
    found = exchange(limit=3)
    found.feed(begin(), 0.0)
    step = found.feed(body(b"long"), 0.0)
    assert step.request.problem == "the body has 4 bytes; 3 are accepted"


def test_bodies_count_towards_the_budget_until_they_are_decided():
    budget = Budget(1000)
    found = FrontExchange(100, budget)
    found.feed(begin(), 0.0)
    found.feed(body(b"12345"), 0.0)
    assert budget.used == 5
    found.answered()
    assert (budget.used, found.stage) == (0, FrontStage.ANSWERED)


def test_of_most_responses_the_headers_are_read_and_nothing_else():
    found = exchange()
    routed(found, response_headers=(("x-served", "a"),))
    assert found.feed(response(), 5.0).replies == (continue_response((("x-served", "a"),)),)
    assert (found.status, found.first_byte_s, found.unserved) == (200, 5.0, False)


def test_an_unserved_response_is_recognised():
    found = exchange()
    routed(found)
    found.feed(response(503, **{"x-modelplane-unserved": "true"}), 5.0)
    assert found.unserved


def test_tokens_are_counted_where_that_is_asked_for():
    found = exchange()
    routed(found, counts_tokens=True)
    assert found.feed(response(), 5.0).replies == (continue_response(shows_body=True),)
    step = found.feed(ProcessingRequest(RESPONSE_BODY, body=b'{"usage":{"prompt_tokens":3}}', ends=True), 6.0)
    assert step.replies == (UNCHANGED[RESPONSE_BODY],)
    assert found.usage.prompt_tokens == 3


class Upper:
    def begin(self, _status, _headers):
        return (("content-type", "x"),)

    def feed(self, piece, *, ends=False):
        return piece.upper() + (b"!" if ends else b"")


def test_a_translated_response_is_replaced_piece_by_piece():
    found = exchange()
    routed(found, translator=Upper())
    expected = continue_response((("content-type", "x"),), ("content-length",), shows_body=True)
    assert found.feed(response(), 5.0).replies == (expected,)
    made = [found.feed(ProcessingRequest(RESPONSE_BODY, body=data, ends=data == b"b"), 6.0) for data in (b"a", b"b")]
    assert [each.replies for each in made] == [(replace_body(RESPONSE_BODY, text),) for text in (b"A", b"B!")]


def test_a_gateways_own_response_is_not_translated():
    found = exchange()
    routed(found, translator=Upper())
    step = found.feed(response(503, **{"x-modelplane-unserved": "true"}), 5.0)
    assert step.replies == (continue_response(),)


def test_messages_out_of_order_end_the_call():
    assert exchange().feed(body(b""), 0.0).broken
    found = exchange()
    found.feed(begin(), 0.0)
    assert found.feed(begin(), 0.0).broken


def test_what_comes_after_an_answer_is_ignored():
    found = exchange()
    found.feed(begin(ends=True), 0.0)
    found.answered()
    assert found.feed(response(), 1.0) == FrontStep()


def test_trailers_pass():
    found = exchange()
    routed(found)
    for phase in (ProcessingPhase.REQUEST_TRAILERS, ProcessingPhase.RESPONSE_TRAILERS):
        assert found.feed(ProcessingRequest(phase, ends=True), 1.0).replies == (UNCHANGED[phase],)
    assert found.is_complete
