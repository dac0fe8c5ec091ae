"""From a question to a decision: parsing, flow control, counting, rewriting, reloading."""

import json
from typing import ClassVar

import msgspec
import pytest

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.director import Director
from modelplane.epp.server.parsing import Parsed, PathParsers
from modelplane.epp.server.request_reader import DEFAULT_TENANT
from modelplane.epp.server.server import assemble
from modelplane.epp.server.steps import PickRequest

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}).encode()
HEADERS = {":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "r1"}
FLOW = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins: [{type: random-picker}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
flowControl:
  defaultRequestTTL: 60s
  saturationDetector: {pluginRef: concurrency-detector}
  defaultPriorityBand: {maxRequests: 2}
"""
PLAIN = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: random-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
"""
COUNTING = PLAIN.replace("[{type: random-picker}]", "[{type: random-picker}, {type: inflight-load-producer}]")


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Waiter:
    def __init__(self):
        self.answers = []

    def answer(self, result):
        self.answers.append(result)

    def evict(self):
        self.answers.append("evicted")


class Watcher:
    """Writes down what an observer hears."""

    def __init__(self):
        self.steps = []
        self.waits = []

    def record_steps(self, _request, _chance):
        return None

    def decided(self, request, decision, spent_s, steps=None, *, model=""):
        self.steps.append(("decided", request.id, decision.outcome.name, model))
        assert spent_s >= 0
        assert steps is None

    def ended(self, request, _decision, served, *, model=""):
        self.steps.append(("ended", request.id, served.status, model))

    def evicted(self, request):
        self.steps.append(("evicted", request.id))

    def waited(self, request, ending, *, model=""):
        assert ending.waited_s >= 0
        self.waits.append((request.fairness_id, ending.outcome, model))

    def rewrote(self, name, model, target, *, exact=False):
        self.steps.append(("rewrote", name, model, target, exact))

    def opened(self):
        raise AssertionError("a director opens no streams")

    def closed(self, *_told):
        raise AssertionError("nor does it close any")


def endpoints(count=2):
    return [
        Endpoint(f"ns/{number}", f"10.0.0.{number}:8000", metrics=EndpointMetrics(scraped_s=1.0))
        for number in range(count)
    ]


class Desk:
    """A director with everything around it."""

    def __init__(self, config=PLAIN, count=2):
        self.clock = Clock()
        self.source = StaticEndpoints(endpoints(count))
        scheduler, flow = assemble(load(config))
        self.director = Director(self.source, scheduler, clock=self.clock, chance=lambda: 0.5, flow=flow)
        self.watcher = self.director.observer = Watcher()

    def decide(self, body=BODY, *, whole=True, subset=None, **headers):
        waiter = Waiter()
        named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        result = self.director.decide(PickRequest(named, body, whole, subset), waiter)
        return result, waiter

    def end(self, result, status=200, served_by=""):
        served = EndpointResponse(result.decision.picked, status, self.clock(), ended_s=self.clock())
        self.director.ended(result, served, served_by=served_by)

    @property
    def counts(self):
        return [(one.requests_in_flight, one.tokens_in_flight, one.failures) for one in self.source.current]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"body": b"junk"}, Outcome.MALFORMED),
        ({"body": b""}, Outcome.MALFORMED),
        ({"body": b"", "whole": False}, Outcome.PICKED),
        ({"body": b"{cut", "whole": False}, Outcome.PICKED),
        ({"subset": ()}, Outcome.EXCLUDED),
        ({"subset": ("10.9.9.9:1",)}, Outcome.EXCLUDED),
        ({"subset": ("10.0.0.1:8000",)}, Outcome.PICKED),
    ],
    ids=["no JSON", "empty", "kept by the proxy", "cut by the proxy", "none", "none here", "one of them"],
)
def test_outcomes(arguments, outcome):
    assert Desk().decide(**arguments)[0].decision.outcome is outcome


def test_a_get_has_no_body_to_parse():
    desk = Desk()
    result = desk.director.decide(
        PickRequest({":method": "GET", ":path": "/v1/chat/completions"}, b"", True, None), Waiter()
    )
    assert result.decision.outcome is Outcome.PICKED


def test_no_endpoints():
    assert Desk(count=0).decide()[0].decision.outcome is Outcome.NO_ENDPOINTS


@pytest.mark.parametrize("config", [PLAIN, COUNTING], ids=["counted here", "counted by a plugin"])
def test_requests_in_flight_are_counted_once(config):
    desk = Desk(config, count=1)
    first, second = desk.decide()[0], desk.decide()[0]
    assert desk.counts[0][:2] == (2, 2 * first.request.tokens)
    desk.end(first)
    desk.end(second)
    assert desk.counts == [(0, 0, 0)]


def test_of_a_prompt_only_what_the_endpoint_does_not_hold_is_in_flight():
    desk = Desk("", count=1)
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hello " * 1000}]})
    first = desk.decide(body)[0]
    assert desk.counts[0][:2] == (1, first.request.tokens)
    again = desk.decide(body)[0]
    assert desk.counts[0][:2] == (2, first.request.tokens)
    assert again.decision.cached_tokens >= again.request.tokens
    desk.director.response_received(first)
    assert desk.counts[0][:2] == (2, 0)


def test_failures_in_a_row_are_counted_where_they_happened():
    desk = Desk()
    picked = desk.decide(subset=("10.0.0.0:8000",))[0]
    desk.end(picked, 503)
    desk.end(desk.decide(subset=("10.0.0.0:8000",))[0], 500)
    assert [counts[2] for counts in desk.counts] == [2, 0]
    desk.end(desk.decide(subset=("10.0.0.0:8000",))[0], 0)
    assert [counts[2] for counts in desk.counts] == [2, 0]
    desk.end(desk.decide(subset=("10.0.0.0:8000",))[0], 502, served_by="10.0.0.1:8000")
    assert [counts[2] for counts in desk.counts] == [2, 1]
    desk.end(desk.decide(subset=("10.0.0.0:8000",))[0], 404)
    assert [counts[2] for counts in desk.counts] == [0, 1]
    desk.end(desk.decide(subset=("10.0.0.0:8000",))[0], 500, served_by="10.9.9.9:1")
    assert [counts[2] for counts in desk.counts] == [1, 1]


def test_observers_receive_every_event():
    desk = Desk()
    picked, _ = desk.decide()
    desk.end(picked, 201)
    desk.decide(b"junk")
    assert desk.watcher.steps == [
        ("decided", "r1", "PICKED", ""),
        ("ended", "r1", 201, ""),
        ("decided", "r1", "MALFORMED", ""),
    ]


def test_another_model_by_header():
    desk = Desk()
    result, _ = desk.decide(x_llm_d_model_name_rewrite="tuned")
    assert result.request.model == "tuned"
    assert (result.rename.requested, result.rename.served) == ("m", "tuned")
    assert json.loads(result.rename.body) == json.loads(BODY) | {"model": "tuned"}
    desk.end(result)
    assert desk.watcher.steps == [("decided", "r1", "PICKED", "m"), ("ended", "r1", 200, "m")]
    assert desk.decide(x_llm_d_model_name_rewrite="m")[0].rename is None


def test_those_for_whom_there_is_no_room_wait_and_go_in_order():
    desk = Desk(FLOW, count=1)
    running, _ = desk.decide()
    assert running.decision.outcome is Outcome.PICKED
    first, first_waiter = desk.decide(x_request_id="r2")
    second, second_waiter = desk.decide(x_request_id="r3")
    assert (first, second, desk.director.waiting) == (None, None, 2)
    full, _ = desk.decide(x_request_id="r4")
    assert full.decision.outcome is Outcome.SATURATED

    desk.clock.now_s += 1
    desk.end(running)
    assert [result.request.id for result in first_waiter.answers] == ["r2"]
    assert second_waiter.answers == []

    desk.clock.now_s += 1
    desk.end(first_waiter.answers[0])
    assert [result.decision.outcome for result in second_waiter.answers] == [Outcome.PICKED]
    assert desk.director.waiting == 0


def test_one_tenant_does_not_keep_others_out_of_a_full_queue():
    desk = Desk(FLOW, count=1)
    desk.decide()
    desk.watcher.waits.clear()
    hoards = [desk.decide(x_llm_d_inference_fairness_id="loud")[1] for _ in range(2)]
    result, quiet = desk.decide(x_llm_d_inference_fairness_id="quiet")
    assert (result, quiet.answers, hoards[0].answers) == (None, [], [])
    assert [answer.decision.outcome for answer in hoards[1].answers] == [Outcome.SATURATED]
    assert desk.watcher.waits == [("loud", Outcome.SATURATED, "")]
    assert desk.director.waiting == 2


def test_requests_that_wait_too_long_expire():
    desk = Desk(FLOW, count=1)
    desk.decide()
    _, waiter = desk.decide()
    desk.clock.now_s += 59
    desk.director.tick()
    assert waiter.answers == []
    desk.clock.now_s += 2
    desk.director.tick()
    assert [result.decision.outcome for result in waiter.answers] == [Outcome.EXPIRED]


def test_a_client_that_goes_while_it_waits():
    desk = Desk(FLOW, count=1)
    running, _ = desk.decide()
    _, waiter = desk.decide(x_request_id="r2")
    desk.director.abandon(waiter)
    desk.director.abandon(waiter)
    desk.end(running)
    assert waiter.answers == []
    assert desk.director.waiting == 0
    assert ("decided", "r2", "ABANDONED", "") in desk.watcher.steps


def test_endpoints_that_come_let_those_go_who_waited_for_them():
    desk = Desk(FLOW, count=0)
    result, waiter = desk.decide()
    assert result is None
    desk.source.replace(endpoints(1))
    assert [result.decision.outcome for result in waiter.answers] == [Outcome.PICKED]


@pytest.mark.parametrize("config", [FLOW, PLAIN], ids=["with flow control", "without"])
def test_a_reload_loses_no_request(config):
    desk = Desk(FLOW, count=1)
    running, _ = desk.decide()
    waiters = [desk.decide()[1] for _ in range(2)]
    desk.director.reload(*assemble(load(config)))
    desk.clock.now_s += 1
    desk.end(running)
    for waiter in waiters:
        desk.clock.now_s += 1
        desk.end(waiter.answers[0])
    assert [[result.decision.outcome for result in waiter.answers] for waiter in waiters] == [[Outcome.PICKED]] * 2
    assert desk.counts == [(0, 0, 0)]


def test_stopping_refuses_those_who_wait_and_those_who_come():
    desk = Desk(FLOW, count=1)
    running, _ = desk.decide()
    _, waiter = desk.decide()
    desk.director.stop()
    assert [result.decision.outcome for result in waiter.answers] == [Outcome.STOPPING]
    assert desk.decide()[0].decision.outcome is Outcome.STOPPING
    desk.end(running)
    assert desk.counts == [(0, 0, 0)]


def test_the_prompt_weighs_until_the_response_begins():
    desk = Desk(count=1)
    result, _ = desk.decide()
    desk.director.response_received(result)
    assert desk.counts[0][:2] == (1, 0)
    served = EndpointResponse(
        result.decision.picked, 200, desk.clock(), first_byte_s=desk.clock(), ended_s=desk.clock()
    )
    desk.director.ended(result, served)
    assert desk.counts[0][:2] == (0, 0)


def test_every_wait_is_reported():
    desk = Desk(FLOW, count=1)
    first, _ = desk.decide()
    _, waiting = desk.decide(x_llm_d_inference_fairness_id="second")
    _, gone = desk.decide(x_llm_d_inference_fairness_id="gone")
    refused, _ = desk.decide(x_llm_d_inference_fairness_id="too many")
    assert refused.decision.outcome is Outcome.SATURATED
    desk.director.abandon(gone)
    desk.end(first)
    assert len(waiting.answers) == 1
    assert desk.watcher.waits == [
        (DEFAULT_TENANT, None, ""),
        ("too many", Outcome.SATURATED, ""),
        ("gone", Outcome.ABANDONED, ""),
        ("second", None, ""),
    ]


TOKEN_FAIR = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: random-picker}
- {type: concurrency-detector, parameters: {maxConcurrency: 1}}
- {type: token-fair-fairness-policy}
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
  defaultPriorityBand: {fairnessPolicyRef: token-fair-fairness-policy}
"""


@pytest.mark.parametrize(("used", "next_up"), [(100_000, "b"), (0, "a")])
def test_what_a_request_came_to_counts_against_its_tenant(used, next_up):
    desk = Desk(TOKEN_FAIR, count=1)
    first, _ = desk.decide(x_llm_d_inference_fairness_id="a")
    waiting = {}
    for tenant in ("a", "b"):
        _, waiting[tenant] = desk.decide(x_llm_d_inference_fairness_id=tenant)
    usage = ResponseUsage(prompt_tokens=used, output_tokens=used)
    served = EndpointResponse(first.decision.picked, 200, desk.clock(), ended_s=desk.clock(), usage=usage)
    desk.director.ended(first, served)
    assert [tenant for tenant, waiter in waiting.items() if waiter.answers] == [next_up]


class Priorities:
    priorities: ClassVar = {"batch": -1, "urgent": 5}

    def rewrite(self, _model, _chance):
        return None


@pytest.mark.parametrize(("evicts", "expected"), [("true", ["evicted"]), ("false", [])])
def test_a_sheddable_request_makes_room_for_an_urgent_one(evicts, expected):
    desk = Desk(FLOW + f"  enableEviction: {evicts}\n", count=1)
    desk.director.reader.rules = Priorities()
    batch, waiter = desk.decide(x_llm_d_inference_objective="batch")
    assert batch.decision.outcome is Outcome.PICKED
    desk.director.tick()
    _, urgent = desk.decide(x_llm_d_inference_objective="urgent")
    desk.director.tick()
    assert waiter.answers == expected
    assert [each[0] for each in desk.watcher.steps if each[0] == "evicted"] == expected
    desk.end(batch, 429)
    assert [result.decision.outcome for result in urgent.answers] == [Outcome.PICKED]
    desk.end(urgent.answers[0])
    assert desk.counts[0][:2] == (0, 0)


class Slow:
    """A tokenizer whose answers a test gives."""

    def __init__(self):
        self.asked = []
        self.taken_back = 0

    def tokenize(self, api, body, told):
        if api is not InferenceApi.CHAT:
            return None
        self.asked.append((body, told))
        return self._take_back

    def _take_back(self):
        self.taken_back += 1


def test_a_decision_waits_for_tokens():
    desk = Desk()
    slow = desk.director.tokenizer = Slow()
    result, waiter = desk.decide()
    assert (result, waiter.answers, slow.asked[0][0]) == (None, [], BODY)
    slow.asked[0][1](((1, 2),))
    slow.asked[0][1](((4,),))
    (result,) = waiter.answers
    assert (result.request.token_ids, result.request.tokens) == (((1, 2),), 2)
    _, without = desk.decide()
    slow.asked[1][1](())
    assert without.answers[0].request.tokens == 3
    assert (
        desk.director.decide(PickRequest({":method": "POST", ":path": "/other"}, b"{}", True, None), Waiter())
        is not None
    )


def test_tokens_come_before_the_wait_for_room():
    desk = Desk(FLOW, count=1)
    desk.decide()
    slow = desk.director.tokenizer = Slow()
    _, waiter = desk.decide()
    slow.asked[0][1](((1,),))
    assert (waiter.answers, desk.director.waiting) == ([], 1)


def test_who_waits_for_tokens_may_go_away_and_does_not_hold_up_the_end():
    desk = Desk()
    slow = desk.director.tokenizer = Slow()
    _, gone = desk.decide()
    _, left = desk.decide()
    desk.director.abandon(gone)
    desk.director.stop()
    for _, told in slow.asked:
        told(((1,),))
    assert gone.answers == []
    assert [result.decision.outcome for result in left.answers] == [Outcome.STOPPING]
    assert slow.taken_back == 2
    assert desk.counts == [(0, 0, 0)] * 2


BLIND = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- type: queue-scorer
- type: max-score-picker
- type: utilization-detector
schedulingProfiles:
- name: default
  plugins: [{pluginRef: utilization-detector}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
flowControl:
  saturationDetector: {pluginRef: utilization-detector}
  defaultPriorityBand: {maxRequests: 1}
"""


@pytest.mark.parametrize(
    ("in_flight", "most"), [(200, 100), (600, 400)], ids=["loaded", "beyond what it is trusted with"]
)
@pytest.mark.parametrize("config", [BLIND, ""], ids=["by metrics alone", "as by default"])
@pytest.mark.parametrize("scraped_s", [-1.0, 1.0], ids=["never scraped", "scraped long ago"])
def test_a_pool_all_of_whose_metrics_are_stale_is_picked_from_under_load(config, scraped_s, in_flight, most):
    """Half of the endpoints said that they were full when they were last heard of."""
    desk = Desk(config, count=4)
    for number, endpoint in enumerate(desk.source.current):
        full = number % 2 == 0 and scraped_s > 0
        load = EndpointMetrics(scraped_s=scraped_s, waiting=50.0 if full else 0.0, kv_cache_usage=1.0 if full else 0.0)
        endpoint.metrics = load
    running, outcomes = [], set()
    for number in range(in_flight + 100):
        desk.clock.now_s += 0.001
        body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": f"{number} hello"}]})
        result, waiter = desk.decide(body, x_request_id=f"r{number}")
        outcomes.add(None if result is None else result.decision.outcome)
        assert waiter.answers == []
        running.append(result)
        if len(running) > in_flight:
            desk.end(running.pop(0))
    assert outcomes == {Outcome.PICKED}
    assert sum(counts[0] for counts in desk.counts) == in_flight
    assert max(counts[0] for counts in desk.counts) <= most


class Rot13:
    name = "rot13"
    paths = ("v1/rot13",)

    def parse(self, body):
        return {b"refuse": int, b"break": {}.__getitem__}.get(body, lambda text: Parsed("m", (text,)))(body)


@pytest.mark.parametrize(
    ("path", "body", "outcome", "prompts", "faults"),
    [
        ("/v1/rot13", b"uryyb", Outcome.PICKED, (b"uryyb",), {}),
        ("/v1/rot13", b"refuse", Outcome.MALFORMED, (), {}),
        ("/v1/rot13", b"break", Outcome.FAULT, (), {"rot13": 1}),
        ("/v1/other", b"uryyb", Outcome.MALFORMED, (), {}),
        ("/v1/chat/completions", BODY, Outcome.PICKED, (b"\nuser\nhello",), {}),
    ],
)
def test_a_parser_of_another_package_has_its_path(path, body, outcome, prompts, faults):
    """Beside it only bodies of chat completions are parsed."""
    desk = Desk()
    desk.director.reader.parsers, desk.director.reader.apis = PathParsers([Rot13()]), frozenset({InferenceApi.CHAT})
    named = {":method": "POST", ":path": path}
    result = desk.director.decide(PickRequest(named, body, True, None), Waiter())
    found = (result.decision.outcome, result.request.prompts, desk.director.scheduler.faults)
    assert found == (outcome, prompts, faults)
