"""Counters and histograms, and the bounds on their labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.decisions import Decision, Outcome
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import EndpointResponse, ResponseUsage
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.server.observe.metrics import DECIDE_S, OTHER, BoundedLabels, Histogram, PickerMetrics

ENDPOINT = Endpoint("team/p", "10.0.0.1:8000")
PICKED = Decision(Outcome.PICKED, ((ENDPOINT,),))


def request(model="m", **fields):
    return Request("id", model, **fields)


def only(numbers):
    (record,) = numbers.records
    return record


@given(st.lists(st.floats(0, 1), max_size=20))
def test_a_histogram_counts_each_value_in_the_first_bucket_that_holds_it(values):
    histogram = Histogram(DECIDE_S)
    for value in values:
        histogram.add(value)
    bounds = (*DECIDE_S, float("inf"))
    expected = [
        sum(low < value <= high for value in values) for low, high in zip((-1.0, *bounds), bounds, strict=False)
    ]
    assert histogram.counts == expected
    assert histogram.total == pytest.approx(sum(values))


def test_a_request_that_is_served():
    numbers = PickerMetrics()
    asked = request(size=500, streaming=True, received_s=10.0, fairness_id="t", priority=2)
    numbers.decided(asked, PICKED, 0.00005, "alias")
    record = only(numbers)
    assert (record.labels, record.requests, record.running) == (("alias", "m", "t", "2"), 1, 1)
    numbers.ended(asked, EndpointResponse(ENDPOINT, 200, 10.01, 10.2, 12.0, ResponseUsage(100, 19, 64)), "alias")
    assert (record.running, record.errors) == (0, {})
    totals = (record.whole, record.first_streaming, record.tpot, record.ntpot, record.inputs, record.outputs)
    assert [one.total for one in totals] == pytest.approx([2.0, 0.2, 0.1, 2 / 19, 100, 19])
    assert (record.cached.total, sum(record.first.counts), record.sizes.total) == (64, 0, 500)
    assert numbers.attempts == {ENDPOINT: {"m": 1}}
    assert numbers.deciding.counts[0] == 1


def test_absent_usage_is_not_counted():
    numbers = PickerMetrics()
    numbers.decided(request(), PICKED, 0.1)
    numbers.ended(request(), EndpointResponse(ENDPOINT, 0, 5.0))
    assert only(numbers).errors == {}
    numbers.ended(request(), EndpointResponse(ENDPOINT, 0, 5.0, given_up=True))
    record = only(numbers)
    counted = (record.whole, record.first, record.tpot, record.ntpot, record.inputs, record.outputs, record.cached)
    assert [sum(one.counts) for one in counted] == [0] * 7
    assert record.errors == {"Unknown": 1}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.MALFORMED, "BadRequest"),
        (Outcome.UNKNOWN_MODEL, "NotFound"),
        (Outcome.NOT_CACHED, "PreconditionFailed"),
        (Outcome.TOO_LARGE, "PayloadTooLarge"),
        (Outcome.SATURATED, "ResourceExhausted"),
        (Outcome.NO_ENDPOINTS, "ServiceUnavailable"),
        (Outcome.ABANDONED, "ClientClosedRequest"),
        (Outcome.FAULT, "Internal"),
    ],
)
def test_a_request_that_goes_nowhere(outcome, code):
    numbers = PickerMetrics()
    numbers.decided(request(), Decision(outcome), 0.1)
    record = only(numbers)
    assert (record.errors, record.running, numbers.failed_attempts) == ({code: 1}, 0, {"m": 1})


def test_every_outcome_has_a_code():
    numbers = PickerMetrics()
    for outcome in Outcome:
        if outcome is not Outcome.PICKED:
            numbers.decided(request(), Decision(outcome), 0.1)
    assert "Unknown" not in only(numbers).errors


def test_only_the_first_thousand_names_are_separate():
    numbers = PickerMetrics(pinned_models=["pinned"])
    for at in range(1500):
        numbers.decided(request(f"m-{at}", fairness_id=f"t-{at}"), PICKED, 0.1)
    numbers.decided(request("pinned", fairness_id="t-0"), PICKED, 0.1)
    models = {record.labels[0] for record in numbers.records}
    tenants = {record.labels[2] for record in numbers.records}
    assert (len(models), len(tenants), "pinned" in models) == (1002, 1001, True)
    lost = next(record for record in numbers.records if record.labels[0] == OTHER)
    assert (lost.requests, lost.running) == (500, 500)
    numbers.ended(request("m-1400", fairness_id="t-1400"), EndpointResponse(ENDPOINT, 200, 0.0))
    assert lost.running == 499


def test_records_are_bounded_too():
    numbers = PickerMetrics()
    for at in range(12_000):
        numbers.decided(request(f"m-{at % 100}", fairness_id=f"t-{at // 100}"), PICKED, 0.1)
    assert len(list(numbers.records)) == 10_001


def test_removed_endpoints_are_not_exported():
    numbers, other = PickerMetrics(), Endpoint("team/q", "10.0.0.2:8000")
    numbers.decided(request(), PICKED, 0.1)
    numbers.decided(request(), Decision(Outcome.PICKED, ((other,),)), 0.1)
    numbers.changed([other])
    assert numbers.attempts == {other: {"m": 1}}


def test_waits_rewrites_splits_and_streams():
    numbers = PickerMetrics()
    numbers.waited(request(priority=1), "Dispatched", 0.02)
    numbers.waited(request(priority=1), "Expired", 60.0)
    assert numbers.waits.ended == {("Dispatched", "1"): 1, ("Expired", "1"): 1}
    numbers.rewrote("rule", "a", "b")
    assert numbers.rewrites == {("rule", "a", "b"): 1}
    for others in ((), (("prefill", (ENDPOINT,)),), (("prefill", (ENDPOINT,)), ("encode", (ENDPOINT,)))):
        numbers.split(request(), Decision(Outcome.PICKED, ((ENDPOINT,),), others=others))
    assert set(numbers.disaggregated) == {
        ("m", "decode-only"),
        ("m", "prefill-decode"),
        ("m", "encode-prefill-decode"),
    }
    numbers.stream_opened()
    assert numbers.streams_open == 1
    numbers.stream_closed("OK", 0.2)
    assert (numbers.streams_open, numbers.streams_by_code) == (0, {"OK": 1})


def test_bounded_names():
    name = BoundedLabels(2, ["p"])
    assert [name(each) for each in ("a", "b", "c", "p", "a", "")] == ["a", "b", OTHER, "p", "a", OTHER]
