"""Counters and histograms, and the bounds on their labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import Adapters, EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe.metrics import DECIDE_S, OTHER, UNKNOWN, BoundedLabels, Histogram, PickerMetrics

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


def models_of(numbers):
    return {label for record in numbers.records for label in record.labels[:2]}


def test_names_of_clients_share_one_label():
    numbers = PickerMetrics(pinned_models=["pinned"])
    sent = [request(f"m-{at}") for at in range(1500)]
    for each in (*sent, request("pinned")):
        numbers.decided(each, PICKED, 0.1)
    assert models_of(numbers) == {*(f"m-{at}" for at in range(32)), "pinned", UNKNOWN}
    lost = next(record for record in numbers.records if record.labels[0] == UNKNOWN)
    assert (lost.requests, lost.running) == (1468, 1468)
    numbers.ended(sent[1400], EndpointResponse(ENDPOINT, 404, 0.0))
    assert (lost.running, lost.errors) == (1467, {"NotFound": 1})


def test_only_the_first_thousand_tenants_are_separate():
    numbers = PickerMetrics()
    for at in range(1500):
        numbers.decided(request(fairness_id=f"t-{at}"), PICKED, 0.1)
    records = list(numbers.records)
    assert len(records) == 1001
    assert (records[-1].labels, records[-1].requests) == ((OTHER, OTHER, OTHER, "0"), 500)


def exhausted():
    """Metrics that have met as many names of clients as have a label."""
    numbers = PickerMetrics()
    for at in range(50):
        numbers.decided(request(f"junk-{at}"), PICKED, 0.1)
    return numbers


def test_a_model_that_an_endpoint_answered_for_has_a_label():
    numbers = exhausted()
    for status, label in ((404, UNKNOWN), (200, UNKNOWN), (200, "real")):
        asked = request("real")
        numbers.decided(asked, PICKED, 0.1)
        before = {record.labels[0]: record.running for record in numbers.records}
        numbers.ended(asked, EndpointResponse(ENDPOINT, status, 0.0))
        after = {record.labels[0]: record.running for record in numbers.records}
        assert {name for name, running in after.items() if running < before[name]} == {label}


def test_engines_that_answer_for_any_name_do_not_grow_the_page():
    numbers = exhausted()
    for at in range(1000):
        asked = request(f"any-{at}")
        numbers.decided(asked, PICKED, 0.1)
        numbers.ended(asked, EndpointResponse(ENDPOINT, 200, 0.0))
        numbers.decided(asked, PICKED, 0.1)
    assert len(models_of(numbers)) == 32 + 128 + 1


def test_a_model_that_endpoints_list_or_policies_name_has_a_label():
    numbers = exhausted()
    listing = EndpointMetrics(models=frozenset(("listed",)), adapters=Adapters(running=frozenset(("adapter",))))
    picked = Decision(Outcome.PICKED, ((Endpoint("team/q", "10.0.0.2:8000", metrics=listing),),))
    for model in ("listed", "adapter", "made-up"):
        numbers.decided(request(model), picked, 0.1)
    numbers.rewrote("rule", "named", "target", exact=True)
    numbers.rewrote("generic", "anything", "target")
    for model in ("target", "named"):
        numbers.decided(request(model), PICKED, 0.1)
    assert models_of(numbers) - {f"junk-{at}" for at in range(32)} == {"listed", "adapter", "target", "named", UNKNOWN}
    assert numbers.rewrites == {("rule", "named", "target"): 1, ("generic", UNKNOWN, "target"): 1}


def test_names_of_clients_have_no_label_where_endpoints_list_their_models():
    numbers = PickerMetrics()
    picked = Decision(
        Outcome.PICKED, ((Endpoint("team/q", "10.0.0.2:8000", metrics=EndpointMetrics(models=frozenset(("m",)))),),)
    )
    for model in ("m", "made-up"):
        numbers.decided(request(model), picked, 0.1)
    assert models_of(numbers) == {"m", UNKNOWN}


def test_records_are_bounded_too():
    numbers = PickerMetrics()
    for at in range(3_000):
        numbers.decided(request(f"m-{at % 10}", fairness_id=f"t-{at // 10}"), PICKED, 0.1)
    assert len(list(numbers.records)) == 1_001


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
