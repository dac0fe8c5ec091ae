import json

import pytest

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.compose.service_plan import PlanTimeouts
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.router.callers import digest_of
from modelplane.router.front_values import FrontRequest, RoutedTo, RouterAnswer
from modelplane.router.refusals import error_body
from tests.router.conftest import chat, endpoint, plan, provider


def test_a_request_is_rewritten_for_the_endpoint(front):
    door = front(plan([provider("p", prefix="/openai/v1")]))
    routed = door.send(headers={"authorization": "Bearer k", "x-modelplane-endpoint": "team/evil", "x-request-id": "r"})
    assert isinstance(routed, RoutedTo)
    assert routed.rewritten.set_headers == (
        ("x-modelplane-endpoint", "team/p"),
        (":path", "/_endpoints/team/chat/p/v1/chat/completions"),
        ("x-modelplane-caller", "anonymous"),
    )
    assert routed.rewritten.remove_headers == ("authorization",)
    assert json.loads(routed.rewritten.body)["model"] == "big"
    assert routed.rewritten.response_headers == (("x-modelplane-served-by", "team/p"),)


@pytest.mark.parametrize(
    ("model", "path", "sent"),
    [
        ("team/chat", "/v1/chat/completions", "engine"),
        ("gpt-x", "/v1/chat/completions", "engine"),
        ("team/chat:legal", "/v1/chat/completions", "legal"),
        ("team/chat", "/team/chat/v1/chat/completions", "engine"),
        ("team/chat:legal", "/team/chat/v1/chat/completions", "legal"),
        ("some-adapter", "/team/chat/v1/chat/completions", None),
        ("engine", "/team/chat/v1/chat/completions", None),
    ],
)
def test_the_model_becomes_the_name_that_the_endpoint_knows(front, model, path, sent):
    door = front(plan([endpoint("a")], aliases=("gpt-x",)))
    body = door.send(model=model, path=path).rewritten.body
    assert (None if body is None else json.loads(body)["model"]) == sent


def test_an_endpoint_without_a_model_gets_the_name_that_it_lists(front):
    door = front(plan([endpoint("a", model=None)]))
    assert door.send().rewritten.body is None
    door.catalog.learned(door.catalog.endpoints["team/a"], ("qwen3-8b",))
    assert json.loads(door.send().rewritten.body)["model"] == "qwen3-8b"


LISTS = {"model": None, "models": ("acme/large", "acme/small")}


@pytest.mark.parametrize(
    ("path", "model"),
    [("/v1/chat/completions", "team/chat:acme/small"), ("/team/chat/v1/chat/completions", "acme/small")],
)
def test_what_a_provider_lists_decides_what_is_routed_to_it(front, path, model):
    door = front(plan([provider("p", **LISTS), provider("q", model=None, models=("acme/large",)), endpoint("a")]))
    for _ in range(4):
        routed = door.send(path=path, model=model)
        assert routed.member.plan.key == "team/p"
        door.end(routed)
    assert "acme/small" not in dict(door.catalog.names())


@pytest.mark.parametrize(
    ("request_", "title", "status"),
    [
        (chat(model="nobody"), "UnknownModel", 404),
        (chat(path="/team/nothing/v1/chat/completions"), "UnknownModel", 404),
        (chat(path="/v1/unheard-of"), "UnknownPath", 404),
        (chat(path="/"), "UnknownPath", 404),
        (FrontRequest({":method": "POST", ":path": "/v1/chat/completions"}, b"{"), "Malformed", 400),
        (FrontRequest({":method": "POST", ":path": "/v1/chat/completions"}, b"{}"), "Malformed", 400),
        (FrontRequest({":path": "/v1/chat/completions"}, problem="too long"), "TooLarge", 413),
    ],
)
def test_what_cannot_be_sent_on_is_answered(front, request_, title, status):
    door = front(plan([endpoint("a")]))
    answer = door.send(request_)
    assert isinstance(answer, RouterAnswer)
    assert (answer.refusal.outcome.title, answer.refusal.outcome.status) == (title, status)
    assert "error" in json.loads(error_body(answer.refusal, answer.api))


def test_requests_count_at_their_endpoint_until_they_end(front):
    door = front(plan([endpoint("a")]))
    routed = [door.send(), door.send()]
    known = door.catalog.endpoints["team/a"].candidate
    assert (known.requests_in_flight, door.catalog.services["team/chat"].in_flight) == (2, 2)
    for each in routed:
        door.end(each)
    assert (known.requests_in_flight, door.catalog.services["team/chat"].in_flight) == (0, 0)


def test_counts_survive_a_new_plan(front):
    door = front(plan([endpoint("a")]))
    routed = door.send()
    door.catalog.replace([plan([endpoint("a"), endpoint("b")])])
    door.end(routed)
    assert door.catalog.endpoints["team/a"].candidate.requests_in_flight == 0


def test_an_answered_request_leaves_a_usage_record(front):
    door = front(plan([endpoint("a", labels={"modelplane.ai/input-price-per-million": "2"})]))
    routed = door.send(headers={"x-request-id": "r", "x-modelplane-caller": "ada"})
    door.now_s += 0.25
    door.end(routed, usage=ResponseUsage(1000, 20, 0))
    assert [json.loads(line) for line in door.lines] == [
        {
            "time": "2026-11-16T18:00:00Z",
            "requestId": "r",
            "caller": "ada",
            "service": "team/chat",
            "endpoint": "team/a",
            "status": 200,
            "durationMs": 250.0,
            "inputTokens": 1000,
            "outputTokens": 20,
            "cachedTokens": 0,
            "cost": 0.002,
        }
    ]


def test_a_refused_request_leaves_a_usage_record_without_an_endpoint(front):
    door = front(plan([endpoint("a")]))
    door.send(model="nobody", headers={"x-request-id": "r", "x-modelplane-caller": "ada"})
    assert [json.loads(line) for line in door.lines] == [
        {
            "time": "2026-11-16T18:00:00Z",
            "requestId": "r",
            "caller": "ada",
            "service": "",
            "endpoint": "",
            "status": 404,
            "durationMs": 0.0,
        }
    ]


def test_an_attempt_that_no_engine_received_leaves_no_usage_record(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    door.end(door.send(), 503, unserved=True)
    assert door.lines == []


def test_a_stream_of_a_caller_with_limits_says_what_it_used(front):
    door = front(plan([endpoint("a")]))
    assert "stream_options" not in json.loads(door.send(stream=True).rewritten.body)
    door.director.callers.replace(CallerDocument((Caller("ada"),), checks_keys=False))
    routed = door.send(stream=True)
    assert json.loads(routed.rewritten.body)["stream_options"] == {"include_usage": True}
    assert routed.rewritten.translator is not None


def keys(**limits):
    return CallerDocument((Caller("ada", (digest_of("secret"),), **limits),))


def test_with_keys_a_request_needs_a_known_one(front):
    door = front(plan([endpoint("a")]))
    door.director.callers.replace(keys())
    assert door.ask() == "Unauthenticated"
    assert door.ask(headers={"authorization": "Bearer wrong"}) == "Unauthenticated"
    assert door.ask(headers={"authorization": "Bearer secret"}) == "a"
    routed = door.send(headers={"x-api-key": "secret", "x-modelplane-caller": "eve"})
    assert dict(routed.rewritten.set_headers)["x-modelplane-caller"] == "ada"
    assert routed.rewritten.remove_headers == ("x-api-key",)
    assert routed.rewritten.counts_tokens


def test_a_caller_is_held_to_its_services_and_limits(front):
    door = front(plan([endpoint("a")]), plan([endpoint("a")], name="other"))
    door.director.callers.replace(keys(services=("team/chat",), requests_per_minute=2))
    key = {"authorization": "Bearer secret"}
    assert door.ask(model="team/other", headers=key) == "Forbidden"
    assert [door.ask(headers=key) for _ in range(3)] == ["a", "a", "Limited"]
    door.now_s += 31.0
    assert door.ask(headers=key) == "a"


def test_a_retry_is_not_counted_again(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    door.director.callers.replace(keys(requests_per_minute=1))
    key = {"authorization": "Bearer secret", "x-request-id": "r"}
    routed = door.send(headers=key)
    door.end(routed, 503, unserved=True)
    assert door.ask(headers=key | {"x-envoy-attempt-count": "2"}) not in {routed.member.plan.name, "Limited"}


def test_a_further_attempt_has_what_is_left_of_the_requests_time(front):
    door = front(
        plan([endpoint("a"), endpoint("b"), endpoint("c")], timeouts=PlanTimeouts(request_s=30.0, idle_s=20.0))
    )
    timeouts = []
    for attempt in "123":
        routed = door.send(headers={"x-request-id": "r", "x-envoy-attempt-count": attempt})
        if isinstance(routed, RouterAnswer):
            refusal = routed.refusal
            break
        timeouts.append(dict(routed.rewritten.set_headers).get("x-envoy-upstream-rq-timeout-ms"))
        door.now_s += 20.0
        door.end(routed, 0, cancelled=True)
    assert timeouts == [None, "10000"]
    assert (refusal.outcome.status, refusal.why) == (504, "the request was not served within 30 s")
    assert door.catalog.services["team/chat"].in_flight == 0


def test_without_a_limit_a_further_attempt_has_none(front):
    door = front(plan([endpoint("a"), endpoint("b")], timeouts=PlanTimeouts(request_s=0.0)))
    for attempt in "12":
        routed = door.send(headers={"x-request-id": "r", "x-envoy-attempt-count": attempt})
        assert "x-envoy-upstream-rq-timeout-ms" not in dict(routed.rewritten.set_headers)
        door.now_s += 9999.0
        door.end(routed, 0, cancelled=True)


def test_the_list_of_models_has_what_the_caller_may_call(front):
    door = front(plan([endpoint("a")], aliases=("gpt-x",), created="2026-11-16T00:00:00Z"), plan([], name="other"))
    door.director.callers.replace(keys(services=("team/chat",)))
    get = {":method": "GET", "authorization": "Bearer secret"}
    answer = door.send(FrontRequest(get | {":path": "/v1/models"}))
    assert [each["id"] for each in json.loads(answer.body)["data"]] == ["gpt-x", "team/chat"]
    assert json.loads(answer.body)["data"][1]["created"] == 1794787200
    answer = door.send(FrontRequest(get | {":path": "/team/none/v1/models"}))
    assert answer.refusal.outcome.status == 404


def test_a_client_that_leaves_early_does_not_eject_and_a_stall_does(front):
    door = front(plan([endpoint("a"), endpoint("b")], timeouts=PlanTimeouts(idle_s=5.0)))
    health = door.catalog.endpoints["team/a"].health
    for waits_s, admits in ((4.0, True), (9.0, True), (9.0, False)):
        routed = next(each for each in iter(door.send, None) if each.member.plan.name == "a")
        door.now_s += waits_s
        door.end(routed, 0, cancelled=True)
        assert health.admits(door.now_s) is admits


def test_a_stopping_router_refuses(front):
    door = front(plan([endpoint("a")]))
    door.director.stopping = True
    assert door.ask() == "Stopping"
