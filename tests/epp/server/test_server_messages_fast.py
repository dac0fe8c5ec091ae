"""Requests that came whole at once are read as message by message, or not at all."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.server.exchange import Budget, Exchange
from modelplane.epp.server.messages import read, read_headers
from modelplane.epp.server.messages_fast import read_whole
from modelplane.epp.server.processing_request import ProcessingPhase, ProcessingRequest
from modelplane.epp.server.steps import PickRequest
from modelplane.epp.transport.wire import WireError
from tests.support.extproc_protos import load

REQUEST = load()["ProcessingRequest"]
EMPTY_METADATA = b"B\0"


def begins(*, mode=4, length="", subset="", ends=False, observed=False):
    request = REQUEST()
    headers = request.request_headers.headers.headers
    headers.add(key=":path", raw_value=b"/v1/completions")
    if length:
        headers.add(key="content-length", raw_value=length.encode())
    request.request_headers.end_of_stream = ends
    request.observability_mode = observed
    if subset:
        hint = request.metadata_context.filter_metadata.add(key="envoy.lb.subset_hint").value
        hint.update({"x-gateway-destination-endpoint-subset": subset})
    if mode >= 0:
        request.protocol_config.SetInParent()
        request.protocol_config.request_body_mode = mode
    return request.SerializeToString()


def piece(body=b"", *, ends=False, observed=False):
    request = REQUEST()
    request.request_body.SetInParent()
    request.request_body.body, request.request_body.end_of_stream = body, ends
    request.observability_mode = observed
    return request.SerializeToString()


def one_by_one(received, *, limit, budget):
    """The question that a request leads to when its messages are fed as they are read; None where it comes later."""
    exchange = Exchange(limit, budget=budget)
    asks = [exchange.feed(read(message), 0.0).pick_request for message in received]
    return asks[-1] if asks[:-1] == [None] * (len(asks) - 1) else None


BODY = b"x" * 200
WHOLE = {
    "a body and its end": [begins(), piece(BODY), piece(ends=True)],
    "a body that ends": [begins(), piece(BODY, ends=True)],
    "as Envoy writes it": [
        begins(length="200") + EMPTY_METADATA, piece(BODY) + EMPTY_METADATA, piece(ends=True) + EMPTY_METADATA
    ],
    "an old Envoy": [begins(mode=-1), piece(BODY, ends=True)],
    "a subset": [begins(subset="10.0.0.1:80"), piece(BODY, ends=True)],
    "a short body": [begins(), piece(b"abcdef"), piece(ends=True)],
    "a length that is wrong": [begins(length="7"), piece(BODY, ends=True)],
}  # fmt: skip
OTHER = {
    "the end with the headers": [begins(ends=True), piece(BODY, ends=True)],
    "no end": [begins(), piece(BODY)],
    "two pieces": [begins(), piece(BODY), piece(BODY, ends=True)],
    "an end after the end": [begins(), piece(BODY, ends=True), piece(ends=True)],
    "buffered": [begins(mode=2), piece(BODY, ends=True)],
    "headers twice": [begins(), begins()],
    "only watched": [begins(observed=True), piece(BODY, ends=True)],
    "a body that is only watched": [begins(), piece(BODY, ends=True, observed=True)],
    "an end that is only watched": [begins(), piece(BODY), piece(ends=True, observed=True)],
    "too large": [begins(), piece(b"x" * 2000, ends=True)],
    "too large by its length": [begins(length="2000"), piece(BODY, ends=True)],
    "one message": [begins()],
    "four messages": [begins(), piece(BODY), piece(ends=True), piece(ends=True)],
    "garbage": [b"\xff" * 10, piece(BODY, ends=True)],
    "garbage behind the headers": [begins() + b"\xff", piece(BODY, ends=True)],
    "cut off": [begins()[:-8], piece(BODY, ends=True)],
    "an empty message": [begins(), b"", b""],
}


@pytest.mark.parametrize("received", WHOLE.values(), ids=WHOLE.keys())
def test_what_came_whole(received):
    budget, other = Budget(1000), Budget(1000)
    ask = Exchange(1000, budget=budget).take_whole(received)
    assert isinstance(ask, PickRequest)
    assert ask == one_by_one(received, limit=1000, budget=other)
    assert budget.used == other.used == len(ask.body)


@pytest.mark.parametrize("received", OTHER.values(), ids=OTHER.keys())
def test_what_has_to_be_read_one_by_one(received):
    budget = Budget(1000)
    exchange = Exchange(1000, budget=budget)
    with contextlib.suppress(WireError):
        assert exchange.take_whole(received) is None
    assert budget.used == 0


def test_a_budget_that_is_spent():
    budget = Budget(100)
    assert Exchange(1000, budget=budget).take_whole(WHOLE["a body that ends"]) is None
    assert budget.used == 0


messages = st.one_of(
    st.builds(begins, mode=st.sampled_from([-1, 2, 4]), ends=st.booleans(), observed=st.booleans()),
    st.builds(piece, st.binary(max_size=300), ends=st.booleans(), observed=st.booleans()),
    st.binary(max_size=20),
)


@given(st.lists(messages, min_size=2, max_size=3), st.integers(0, 400), st.binary(max_size=3))
def test_what_is_read_at_once_is_what_is_read_one_by_one(received, cut, behind):
    received = [received[0][:cut] + behind, *received[1:]]
    found = read_whole(received)
    if found is None:
        return
    first, second, *last = [read(message) for message in received]
    assert first == ProcessingRequest(
        ProcessingPhase.REQUEST_HEADERS,
        read_headers(found[0]),
        metadata=found[2].metadata,
        request_mode=found[2].request_mode,
        response_mode=found[2].response_mode,
    )
    assert (second.phase, second.body, second.ends) == (ProcessingPhase.REQUEST_BODY, found[1], not last)
    assert [(each.phase, each.body, each.ends) for each in last] in ([], [(ProcessingPhase.REQUEST_BODY, b"", True)])
