from modelplane.compose.service_plan import PlanTimeouts
from modelplane.epp.server.exchange import Budget
from modelplane.epp.transport.calls import GrpcStatus
from modelplane.epp.transport.wire import nested, whole
from modelplane.router.processor import FrontProcessor
from tests.router.conftest import endpoint, plan


class Call:
    def __init__(self):
        self.sent = []
        self.end = None

    def send(self, *messages):
        self.sent.extend(messages)

    def finish(self, status=GrpcStatus.OK, why=""):
        self.end = self.end or (status, why)

    def mark_idle(self):
        pass


def header_map(headers):
    entries = [nested(1, nested(1, name.encode()) + nested(3, value.encode())) for name, value in headers.items()]
    return nested(1, b"".join(entries))


def begin(**headers):
    given = {":method": "POST", ":path": "/v1/chat/completions", **headers}
    return nested(2, header_map(given)) + nested(11, whole(1, 2))


def body(data):
    return nested(4, nested(1, data) + whole(2, 1))


BODY = b'{"model": "team/chat", "messages": []}'


def processor(door):
    call = Call()
    return call, FrontProcessor(call, door.director, lambda: door.now_s, 1000, Budget(1000), door.stalls)


def test_a_call_from_its_headers_to_its_end(front):
    door = front(plan([endpoint("a")]))
    call, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    assert b"/_endpoints/team/chat/a/v1/chat/completions" in call.sent[-1]
    found.message(nested(3, header_map({":status": "200"})))
    assert door.catalog.endpoints["team/a"].candidate.requests_in_flight == 1
    found.closed()
    assert door.catalog.endpoints["team/a"].candidate.requests_in_flight == 0
    assert call.end == (GrpcStatus.OK, "")
    assert len(door.lines) == 1


def test_a_refusal_ends_the_call(front):
    door = front()
    call, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    assert b"model_not_found" in call.sent[-1]
    assert call.end == (GrpcStatus.OK, "")


def test_a_cancelled_call_releases_what_it_held(front):
    door = front(plan([endpoint("a")]))
    _, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    found.cancelled()
    found.cancelled()
    assert door.catalog.endpoints["team/a"].candidate.requests_in_flight == 0


def test_what_is_no_message_ends_the_call(front):
    call, found = processor(front())
    found.message(b"\xff")
    assert call.end[0] is GrpcStatus.INVALID_ARGUMENT
    call, found = processor(front())
    found.message(body(BODY))
    assert call.end == (GrpcStatus.INVALID_ARGUMENT, "a request body came before its headers")


def test_an_endpoint_that_turns_a_request_away_leaves_it_to_another(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    call, found = processor(door)
    found.message(begin(**{"x-request-id": "r"}))
    found.message(body(BODY))
    found.message(nested(3, header_map({":status": "429"})))
    assert b"x-modelplane-unserved" in call.sent[-1]
    found.closed()
    assert door.lines == []
    assert all(each.health.admits(door.now_s) for each in door.catalog.endpoints.values())


def test_without_another_endpoint_the_client_gets_what_there_is(front):
    door = front(plan([endpoint("a")]))
    call, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    found.message(nested(3, header_map({":status": "429"})))
    assert b"x-modelplane-unserved" not in call.sent[-1]
    found.closed()
    assert len(door.lines) == 1


def test_a_silent_endpoint_is_given_up(front):
    door = front(plan([endpoint("a"), endpoint("b")], timeouts=PlanTimeouts(idle_s=5.0)))
    call, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    door.now_s += 4.9
    assert door.stalls.sweep(door.now_s) == 0
    door.now_s += 0.2
    assert door.stalls.sweep(door.now_s) == 1
    assert b"did not respond within 5 s" in call.sent[-1]
    assert b"x-modelplane-unserved" in call.sent[-1]
    assert call.end == (GrpcStatus.OK, "")
    assert len(door.stalls) == 0
    assert {each.candidate.requests_in_flight for each in door.catalog.endpoints.values()} == {0}


def test_a_response_ends_the_watch(front):
    door = front(plan([endpoint("a")], timeouts=PlanTimeouts(idle_s=5.0)))
    _, found = processor(door)
    found.message(begin())
    found.message(body(BODY))
    found.message(nested(3, header_map({":status": "200"})))
    door.now_s += 60.0
    door.stalls.sweep(door.now_s)
    assert door.catalog.endpoints["team/a"].candidate.requests_in_flight == 1
