"""One call of external processing, from its messages to its end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.server.director import Director
from modelplane.epp.server.processor import Processor
from modelplane.epp.server.server import assemble
from modelplane.epp.transport.calls import GrpcStatus
from tests.support.extproc_protos import load as load_protos

PROTOS = load_protos()
REQUEST, RESPONSE = PROTOS["ProcessingRequest"], PROTOS["ProcessingResponse"]
BODY = json.dumps({"model": "m", "messages": []}).encode()
FLOW = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins: [{type: random-picker}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
flowControl: {saturationDetector: {pluginRef: concurrency-detector}}
"""


class Call:
    def __init__(self):
        self.sent = []
        self.ends = []
        self.rests = False

    def send(self, *messages):
        assert not self.ends
        self.sent += [RESPONSE.FromString(message) for message in messages]

    def finish(self, status=GrpcStatus.OK, why=""):
        self.ends.append((status, why))

    def mark_idle(self):
        self.rests = True


class Pool:
    """A director of one endpoint that writes down how requests end."""

    def __init__(self, config=""):
        self.endpoint = Endpoint("ns/a", "10.0.0.1:8000")
        scheduler, flow = assemble(load(config))
        self.ends = []
        self.outcomes = []
        self.streams = []
        self._now_s = 0.0
        source = StaticEndpoints([self.endpoint])
        self.director = Director(source, scheduler, clock=self.clock, chance=lambda: 0.0, flow=flow)
        self.director.observer = self

    def clock(self):
        self._now_s += 1.0
        return self._now_s

    def record_steps(self, _request, _chance):
        return None

    def decided(self, _request, decision, *_told, model=""):
        assert model == ""
        self.outcomes.append(decision.outcome)

    def ended(self, _request, _decision, served, *, model=""):
        assert model == ""
        self.ends.append((served.endpoint, served.status, served.first_byte_s > 0, served.ended_s > served.started_s))

    def evicted(self, _request):
        raise AssertionError("nobody is urgent")

    def waited(self, *_told, model=""):
        assert model == ""

    def rewrote(self, *_told, **_more):
        raise AssertionError("there are no rules")

    def opened(self):
        self.streams.append("open")

    def closed(self, code, lasted_s, request_s, response_s):
        self.streams.append((code, lasted_s > 0, request_s > 0, response_s > 0))

    def call(self):
        call = Call()
        return call, Processor(call, self.director, self.clock, 1000)


def headers(mode=4, path="/v1/chat/completions", response_mode=0):
    request = REQUEST()
    for name, value in ((":method", "POST"), (":path", path)):
        request.request_headers.headers.headers.add(key=name, raw_value=value.encode())
    if mode >= 0:
        request.protocol_config.SetInParent()
        request.protocol_config.request_body_mode = mode
        request.protocol_config.response_body_mode = response_mode
    return request.SerializeToString()


def body(data=BODY):
    request = REQUEST()
    request.request_body.body, request.request_body.end_of_stream = data, True
    return request.SerializeToString()


def answered(status="200"):
    request = REQUEST()
    request.response_headers.headers.headers.add(key=":status", raw_value=status.encode())
    return request.SerializeToString()


def told(call):
    return [[field.name for field, _ in each.ListFields()] for each in call.sent]


def test_a_call_from_headers_to_its_end():
    pool = Pool()
    call, processor = pool.call()
    processor.message(headers())
    assert call.sent == []
    processor.message(body())
    assert told(call) == [["request_headers", "dynamic_metadata"], ["request_body"]]
    assert pool.endpoint.requests_in_flight == 1
    processor.message(answered())
    assert told(call)[2:] == [["response_headers"]]
    assert pool.ends == []
    processor.closed()
    assert call.ends == [(GrpcStatus.OK, "")]
    assert pool.ends == [(pool.endpoint, 200, True, True)]
    assert pool.endpoint.requests_in_flight == 0
    assert pool.streams == ["open", ("OK", True, True, True)]


@pytest.mark.parametrize(
    ("modes", "rests"),
    [((4, 0), True), ((4, 4), False), ((2, 0), True), ((0, 0), True), ((1, 0), False), ((-1, -1), False)],
)
def test_a_call_is_idle_while_envoy_waits_for_nothing(modes, rests):
    call, processor = Pool().call()
    processor.message(headers(mode=modes[0], response_mode=modes[1]))
    processor.message(body())
    assert call.rests is rests


def test_a_call_that_envoy_resets_counts_as_ended_once():
    pool = Pool()
    call, processor = pool.call()
    processor.message(headers(mode=0))
    processor.cancelled()
    processor.cancelled()
    assert call.ends == []
    assert pool.ends == [(pool.endpoint, 0, False, True)]


def test_a_refusal_ends_the_call():
    pool = Pool()
    call, processor = pool.call()
    processor.message(headers())
    processor.message(body(b"junk"))
    assert told(call) == [["immediate_response"]]
    assert call.sent[0].immediate_response.status.code == 400
    assert call.ends == [(GrpcStatus.OK, "")]
    assert pool.ends == []
    assert pool.streams == ["open", ("OK", True, True, False)]


def test_a_request_that_has_to_make_room_is_answered_and_counted_as_ended():
    pool = Pool()
    call, processor = pool.call()
    processor.message(headers(mode=0))
    processor.evict()
    assert told(call)[1:] == [["immediate_response"]]
    assert call.sent[1].immediate_response.status.code == 429
    assert call.ends == [(GrpcStatus.OK, "")]
    assert pool.ends == [(pool.endpoint, 429, False, True)]
    assert (pool.endpoint.requests_in_flight, pool.endpoint.tokens_in_flight) == (0, 0)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([b"\xff"], "not a message of external processing: a number does not end"),
        ([body()], "a request body came before its headers"),
    ],
)
def test_what_envoy_would_not_send(messages, why):
    call, processor = Pool().call()
    for message in messages:
        processor.message(message)
    assert call.ends == [(GrpcStatus.INVALID_ARGUMENT, why)]


@pytest.mark.parametrize(
    ("messages", "end", "outcomes"),
    [
        ([], "cancelled", []),
        ([], "closed", []),
        ([b"\xff"], "cancelled", [Outcome.MALFORMED]),
        ([body()], "cancelled", [Outcome.MALFORMED]),
        ([headers()], "cancelled", [Outcome.ABANDONED]),
        ([headers()], "closed", [Outcome.ABANDONED]),
        ([headers(), headers()], "cancelled", [Outcome.MALFORMED]),
        ([headers(), b"\xff"], "cancelled", [Outcome.MALFORMED]),
        ([headers(), body(b"x" * 1001)], "cancelled", [Outcome.TOO_LARGE]),
        ([headers(), body(b"{")], "cancelled", [Outcome.MALFORMED]),
        ([headers(), body()], "cancelled", [Outcome.PICKED]),
        ([headers(), body(), answered(), b"\xff"], "closed", [Outcome.PICKED]),
    ],
    ids=str,
)
def test_every_request_ends_in_exactly_one_outcome(messages, end, outcomes):
    pool = Pool()
    call, processor = pool.call()
    for message in messages:
        if not call.ends:
            processor.message(message)
    getattr(processor, end)()
    assert pool.outcomes == outcomes


calls = st.lists(
    st.sampled_from([headers(), headers(mode=0), body(b"{"), body(), body(b"x" * 1001), answered(), b"\xff"]),
    max_size=5,
)


@given(calls, st.sampled_from(["closed", "cancelled"]), st.sampled_from(["", FLOW]))
def test_whatever_envoy_sends_a_request_ends_once(messages, end, config):
    pool = Pool(config)
    call, processor = pool.call()
    for message in messages:
        if not call.ends:
            processor.message(message)
    getattr(processor, end)()
    began = bool(messages) and messages[0] != answered()
    assert len(pool.outcomes) == (1 if began else len(pool.outcomes))
    assert len(pool.outcomes) <= 1
    assert len(pool.ends) == pool.outcomes.count(Outcome.PICKED)
    assert pool.endpoint.requests_in_flight == 0


def test_garbage_after_a_request_was_sent_on_ends_it():
    pool = Pool()
    call, processor = pool.call()
    processor.message(headers(mode=0))
    processor.message(b"\xff")
    assert call.ends[0][0] is GrpcStatus.INVALID_ARGUMENT
    assert len(pool.ends) == 1
    assert pool.endpoint.requests_in_flight == 0


def test_a_call_that_has_to_wait_is_answered_later():
    pool = Pool(FLOW)
    _, running = pool.call()
    running.message(headers(mode=0))
    call, waiting = pool.call()
    waiting.message(headers())
    waiting.message(body())
    assert (call.sent, pool.director.waiting) == ([], 1)
    running.closed()
    assert told(call) == [["request_headers", "dynamic_metadata"], ["request_body"]]


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_a_call_that_goes_while_it_waits_is_forgotten(how):
    pool = Pool(FLOW)
    _, running = pool.call()
    running.message(headers(mode=0))
    call, waiting = pool.call()
    waiting.message(headers())
    waiting.message(body())
    getattr(waiting, how)()
    running.closed()
    assert (call.sent, pool.director.waiting) == ([], 0)
    assert pool.endpoint.requests_in_flight == 0


def pieces(data=BODY, *, cut=0):
    """A body, and its end in a message of its own; or in two pieces."""
    found = []
    for part in [data[:cut], data[cut:]] if cut else [data]:
        request = REQUEST()
        request.request_body.body = part
        found.append(request.SerializeToString())
    request = REQUEST()
    request.request_body.end_of_stream = True
    return [*found, request.SerializeToString()]


TOGETHER = {
    "as Envoy sends them": [headers(), *pieces()],
    "the end with the body": [headers(), body()],
    "headers alone": [headers()],
    "buffered": [headers(mode=2), body()],
    "an absent mode": [headers(mode=-1), *pieces()],
    "in pieces": [headers(), *pieces(cut=3)],
    "not whole": [headers(), *pieces()[:1]],
    "too large": [headers(), *pieces(b"x" * 2000)],
    "no JSON": [headers(), *pieces(b"x" * 200)],
    "no headers": pieces(),
    "garbage": [b"\xff\xff", headers(), body()],
    "garbage behind": [headers(), body(), b"\xff\xff"],
    "a response at once": [headers(), body(), answered()],
}


@pytest.mark.parametrize("sent", TOGETHER.values(), ids=TOGETHER.keys())
@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_messages_that_come_together_lead_to_the_same_as_one_by_one(sent, how):
    together, one_by_one = Pool(), Pool()
    call, processor = together.call()
    processor.messages(sent)
    expected, other = one_by_one.call()
    for message in sent:
        if not expected.ends:
            other.message(message)
    assert (call.sent, call.ends, call.rests) == (expected.sent, expected.ends, expected.rests)
    assert together.endpoint.requests_in_flight == one_by_one.endpoint.requests_in_flight
    if not call.ends:
        getattr(processor, how)()
        getattr(other, how)()
    assert [end[1:] for end in together.ends] == [end[1:] for end in one_by_one.ends]
    assert together.streams == one_by_one.streams
    assert together.endpoint.requests_in_flight == 0
