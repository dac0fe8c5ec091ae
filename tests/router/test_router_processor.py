import pytest

from modelplane.compose.service_plan import PlanTimeouts, RetryBudget
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
    found.message(begin(**{"x-request-id": "r", "x-envoy-attempt-count": "1"}))
    found.message(body(BODY))
    found.message(nested(3, header_map({":status": "429"})))
    assert b"x-modelplane-unserved" in call.sent[-1]
    found.closed()
    assert door.lines == []
    assert all(each.health.admits(door.now_s) for each in door.catalog.endpoints.values())


def attributes(**given):
    entries = [
        nested(1, nested(1, name.replace("__", ".").encode()) + nested(2, nested(3, text.encode())))
        for name, text in given.items()
    ]
    return nested(9, nested(1, b"envoy.filters.http.ext_proc") + nested(2, b"".join(entries)))


@pytest.mark.parametrize(
    ("details", "ejects"),
    [
        ("upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_111}", "the address"),
        ("upstream_reset_before_response_started{connection_timeout}", "the address"),
        ("no_healthy_upstream", "the address"),
        ("cluster_not_found", "the endpoint"),
        ("route_not_found", "the endpoint"),
        ("upstream_reset_before_response_started{connection_termination}", "nobody"),
        ("via_upstream", "nobody"),
    ],
)
def test_a_gateway_that_reached_nobody_ejects_at_once(front, details, ejects):
    first, other = endpoint("a"), endpoint("b", address="10.0.0.2")
    door = front(plan([first, endpoint("c"), other]))
    heard = []
    door.director.on_refused = lambda: heard.append(True)
    call, found = processor(door)
    found.message(begin(**{"x-session-id": "s"}))
    found.message(body(BODY))
    picked = next(each for each in door.catalog.endpoints.values() if each.candidate.requests_in_flight)
    found.message(nested(3, header_map({":status": "503"})) + attributes(response__code_details=details))
    found.closed()
    there = {each.plan.key for each in door.catalog.endpoints.values() if each.plan.address == picked.plan.address}
    ejected = {key for key, each in door.catalog.endpoints.items() if not each.health.admits(door.now_s)}
    refused = ejects != "nobody"
    assert ejected == {"the address": there, "the endpoint": {picked.plan.key}, "nobody": set()}[ejects]
    assert heard == [True] * refused
    assert (b"cannot be reached" in call.sent[-1], b"retry-after" in call.sent[-1]) == (refused, refused)
    assert len(door.lines) == 1


def test_a_spent_budget_passes_the_refusal_on(front):
    """Each of eight requests is turned away; three may go to the other endpoint."""
    door = front(plan([endpoint("a"), endpoint("b")], retries=RetryBudget(10, 3)))
    tries = []
    for _ in range(8):
        call, found = processor(door)
        found.message(begin(**{"x-envoy-attempt-count": "1"}))
        found.message(body(BODY))
        found.message(nested(3, header_map({":status": "429"})))
        found.closed()
        tries.append(b"x-modelplane-unserved" in call.sent[-1])
    assert tries == [True] * 3 + [False] * 5


@pytest.mark.parametrize(
    ("endpoints", "headers"), [([endpoint("a")], {"x-envoy-attempt-count": "1"}), ([endpoint("a"), endpoint("b")], {})]
)
def test_without_another_endpoint_or_a_hop_that_tries_again_the_client_gets_what_there_is(front, endpoints, headers):
    door = front(plan(endpoints))
    call, found = processor(door)
    found.message(begin(**headers))
    found.message(body(BODY))
    found.message(nested(3, header_map({":status": "429"})))
    assert b"x-modelplane-unserved" not in call.sent[-1]
    found.closed()
    assert len(door.lines) == 1


def test_a_silent_endpoint_is_given_up(front):
    door = front(plan([endpoint("a"), endpoint("b")], timeouts=PlanTimeouts(idle_s=5.0)))
    call, found = processor(door)
    found.message(begin(**{"x-envoy-attempt-count": "1"}))
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
