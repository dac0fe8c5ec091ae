"""Predictions follow what was served, fall back where little was, and are always numbers."""

from math import inf, isfinite, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.scheduling.context import SchedulingContext
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.producers.latency import (
    _TPOT_FEATURES,
    _TTFT_FEATURES,
    LATENCY,
    TYPES,
    LatencyProducer,
    LatencyProducerParameters,
    Prediction,
    _tpot_features,
    _ttft_features,
)
from modelplane.epp.scheduling.producers.matches import PrefixMatch
from modelplane.epp.scheduling.producers.prefix import put_prefix
from modelplane.epp.scheduling.producers.regression import LEAST_SAMPLES, Regression
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.units import convert


def test_a_line_is_found():
    line = Regression(3)
    for number in range(200):
        features = (1.0, float(number % 7), float(number % 5))
        line.learn(features, 2.0 + 3.0 * features[1] - 0.5 * features[2])
    assert line.predict((1.0, 2.0, 1.0)) == pytest.approx(7.5, abs=0.01)
    assert line.confidence > 0.9


def test_samples_fade_by_half_a_percent_each():
    """The mean, and beside it what was assumed at first: 0, with the weight of a hundredth of a sample."""
    line, weights = Regression(1), [0.995 ** (9 - number) for number in range(10)]
    for number in range(10):
        line.learn((1.0,), float(number))
    mean = sum(weight * number for number, weight in enumerate(weights)) / (0.995**10 / 100.0 + sum(weights))
    assert line.predict((1.0,)) == pytest.approx(mean, rel=1e-9)


def test_confidence_is_of_what_was_seen_and_an_outlier_counts_as_five_usual_errors():
    line = Regression(1)
    for _ in range(10):
        line.learn((0.0,), 1.0)
    assert line.confidence == 0.0
    line.learn((0.0,), 1000.0)
    error, size = 1.0 + (5.0 - 1.0) / 11, 1.0 + (1000.0 - 1.0) / 11
    assert line.confidence == pytest.approx(11 / 21 * (1.0 - error / size), rel=1e-9)


def test_where_errors_are_small_a_hundredth_of_what_is_usual_counts():
    line = Regression(1)
    for _ in range(400):
        line.learn((1.0,), 100.0)
    line.learn((1.0,), 1000.0)
    assert line.predict((1.0,)) == pytest.approx(100.0 + 5.0 * (1.0 - 0.995) / (1.0 - 0.995**401), abs=0.002)


def test_a_line_follows_a_change_and_shrugs_off_one_outlier():
    line = Regression(2)
    for number in range(300):
        line.learn((1.0, float(number % 4)), 1.0)
    line.learn((1.0, 1.0), 1e9)
    assert line.predict((1.0, 1.0)) == pytest.approx(1.0, abs=0.2)
    for number in range(3000):
        line.learn((1.0, float(number % 4)), 5.0)
    assert line.predict((1.0, 1.0)) == pytest.approx(5.0, rel=0.1)


def test_nothing_is_predicted_before_enough_was_seen():
    line = Regression(1)
    for _ in range(LEAST_SAMPLES - 1):
        line.learn((1.0,), 1.0)
    assert (line.predict((1.0,)), line.confidence) == (None, 0.0)
    line.learn((nan,), 1.0)
    line.learn((1.0,), inf)
    assert line.samples == LEAST_SAMPLES - 1


def test_what_varies_alone_is_learned_alone():
    line = Regression(2)
    for _ in range(LEAST_SAMPLES):
        line.learn((1.0, 0.0), 1.0)
    line.learn((1.0, nan), 1.0)
    assert (line.samples, line.predict((0.0, 1.0))) == (LEAST_SAMPLES, 0.0)
    assert line.confidence == pytest.approx(0.45, abs=0.01)


@pytest.mark.parametrize(("known", "features"), [((1.0, 1.0), (1e307, 1e307)), ((1.0, 0.0), (1.0, 1e307))])
def test_a_line_whose_arithmetic_overflows_starts_anew(known, features):
    line = Regression(2)
    for _ in range(LEAST_SAMPLES):
        line.learn(known, 1.0)
    assert line.predict((1.0, 1.0)) is not None
    line.learn(features, 1.0)
    assert (line.samples, line.predict((1.0, 1.0)), line.confidence) == (0, None, 0.0)


def test_a_line_that_learns_nothing_new_does_not_fade():
    """Nothing varies but the constant: the spread of the other weight would grow without bound."""
    line = Regression(2)
    for _ in range(5000):
        line.learn((1.0, 0.0), 1.0)
    line.learn((1.0, 1.0), 2.0)
    assert line.predict((1.0, 0.0)) == pytest.approx(1.0, abs=0.05)
    assert line._spread[1][1] < 1.1e4


numbers = st.floats(-1e12, 1e12)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=80), numbers, numbers)
def test_whatever_is_learned_predictions_are_numbers(samples, first, second):
    line = Regression(3)
    for one, other, outcome in samples * 3:
        line.learn((1.0, one, other), outcome)
    found = line.predict((1.0, first, second))
    assert found is None or isfinite(found)
    assert 0.0 <= line.confidence <= 1.0


def server(number: int, waiting: float = 0.0) -> Endpoint:
    return Endpoint(f"ns/pod-{number}", f"10.0.0.{number}:8000", metrics=EndpointMetrics(waiting=waiting))


def serve(producer, pool, picked, tokens, ttft_s, tpot_s=0.02, **changes) -> None:
    request = Request("r", prompts=(b"x" * tokens * 4,))
    context = SchedulingContext(request, pool, 0.0, lambda: 0.0)
    decision = Decision(Outcome.PICKED, ((picked,),))
    producer.produce(context)
    picked.tokens_in_flight += tokens
    producer.pre_request(context, decision)
    told = {
        "status": 200,
        "first_byte_s": ttft_s,
        "ended_s": ttft_s + 10 * tpot_s,
        "usage": ResponseUsage(output_tokens=11),
    }
    producer.response_complete(
        request, decision, EndpointResponse(**{"endpoint": picked, "started_s": 0.0, **told, **changes})
    )
    picked.tokens_in_flight -= tokens


def predictions(producer, pool, tokens=1000, **goals):
    context = SchedulingContext(Request("r", prompts=(b"x" * tokens * 4,), **goals), pool, 0.0, lambda: 0.0)
    producer.produce(context)
    return context.get(LATENCY)


def test_each_endpoint_has_its_own_line_and_a_new_one_the_pools():
    producer, pool = LatencyProducer("p"), (server(0), server(1), server(2))
    assert predictions(producer, pool) == [None, None, None]
    for number in range(100):
        tokens = 100 + 37 * number % 3000
        serve(producer, pool, pool[0], tokens, 0.1 + tokens / 10_000, 0.02)
        serve(producer, pool, pool[1], tokens, 0.3 + tokens / 5_000, 0.06)
    fast, slow, new = predictions(producer, pool, ttft_goal_s=0.4, tpot_goal_s=0.05)
    assert (fast.ttft_s, fast.tpot_s) == (pytest.approx(0.2, abs=0.02), pytest.approx(0.02, abs=0.002))
    assert (slow.ttft_s, slow.tpot_s) == (pytest.approx(0.5, abs=0.05), pytest.approx(0.06, abs=0.006))
    assert fast.ttft_s < new.ttft_s < slow.ttft_s
    assert fast.ttft_headroom_s == pytest.approx(0.2, abs=0.02)
    assert slow.tpot_headroom_s < 0.0
    assert fast.confidence > 0.8
    producer.endpoints_changed(pool[2:])
    assert predictions(producer, pool)[0].ttft_s == pytest.approx(new.ttft_s)


def test_without_goals_headroom_is_unbounded_and_the_buffer_counts():
    producer, pool = LatencyProducer("p", LatencyProducerParameters(slo_buffer_factor=0.5)), (server(0),)
    for _ in range(50):
        serve(producer, pool, pool[0], 100, 1.0)
    (found,) = predictions(producer, pool, tokens=100)
    assert (found.ttft_headroom_s, found.tpot_headroom_s) == (inf, inf)
    (found,) = predictions(producer, pool, tokens=100, ttft_goal_s=4.0)
    assert found.ttft_headroom_s == pytest.approx(1.0, abs=0.05)


def test_a_prediction_that_is_no_finite_number_is_none():
    producer, pool = LatencyProducer("p"), (server(0),)
    for number in range(50):
        serve(producer, pool, pool[0], 1000 * (1 + number % 5), 1e305 * (1 + number % 5))
    assert [found is None for found in predictions(producer, pool, tokens=1000)] == [False]
    assert predictions(producer, pool, tokens=2_000_000) == [None]


def test_without_output_tokens_only_the_first_is_predicted():
    producer, pool = LatencyProducer("p"), (server(0),)
    for _ in range(50):
        serve(producer, pool, pool[0], 100, 1.0, usage=ResponseUsage())
    (found,) = predictions(producer, pool, tokens=100, tpot_goal_s=0.05)
    assert (found.ttft_s, found.tpot_s, found.tpot_headroom_s) == (pytest.approx(1.0, abs=0.05), 0.0, 0.05)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"usage": ResponseUsage(output_tokens=1)}, (1.0, 0.0), id="one token"),
        pytest.param({"usage": ResponseUsage(output_tokens=2)}, (1.0, 0.2), id="one more"),
        pytest.param({"first_byte_s": -1.0, "ended_s": 2.0}, (2.0, 0.0), id="only the end is known"),
        pytest.param({"first_byte_s": 1.0, "ended_s": 1.0}, (1.0, 0.0), id="all at once"),
        pytest.param({"first_byte_s": 0.0, "ended_s": 1.0}, (0.0, 0.1), id="from the start"),
        pytest.param({"started_s": 0.5}, (0.5, 0.02), id="sent later"),
        pytest.param({"status": 299}, (1.0, 0.02), id="a success"),
    ],
)
def test_what_is_learned_of_a_response(changes, expected):
    producer, pool = LatencyProducer("p"), (server(0),)
    for _ in range(200):
        serve(producer, pool, pool[0], 100, 1.0, **changes)
    (found,) = predictions(producer, pool, tokens=100)
    assert (found.ttft_s, found.tpot_s) == (pytest.approx(expected[0], abs=0.01), pytest.approx(expected[1], abs=0.001))


def test_a_response_that_comes_all_at_once_says_nothing_of_further_tokens():
    producer, pool = LatencyProducer("p"), (server(0),)
    for changes in ({}, {"first_byte_s": 1.0, "ended_s": 1.0}):
        for _ in range(200):
            serve(producer, pool, pool[0], 100, 1.0, **changes)
    assert predictions(producer, pool, tokens=100)[0].tpot_s == pytest.approx(0.02, abs=0.001)


def test_predictions_begin_with_the_tenth_sample():
    producer, pool, found = LatencyProducer("p"), (server(0),), []
    for _ in range(10):
        found += predictions(producer, pool)
        serve(producer, pool, pool[0], 1000, 1.0)
    assert (found, predictions(producer, pool) == [None]) == ([None] * 10, False)


def test_predictions_are_not_written_where_they_are_not_wanted():
    producer, pool = LatencyProducer("p", LatencyProducerParameters(predict_in_produce=False)), (server(0),)
    for _ in range(50):
        serve(producer, pool, pool[0], 100, 1.0)
    assert predictions(producer, pool) is None
    context = SchedulingContext(Request("r"), pool, 0.0, lambda: 0.0)
    assert producer.predict(context)[0].ttft_s > 0.0


def test_predictions_that_were_captured_are_restored():
    producer, pool = LatencyProducer("p"), (server(0), server(1))
    context = SchedulingContext(Request("r"), pool, 0.0, lambda: 0.0)
    assert producer.capture(context) is None
    found = [Prediction(0.5, 0.02, inf, -0.1, 0.9), None]
    context.put(LATENCY, found)
    captured = msgspec.json.decode(msgspec.json.encode(producer.capture(context)))
    replayed = SchedulingContext(Request("r"), pool, 0.0, lambda: 0.0)
    LatencyProducer("p").restore(replayed, captured)
    assert replayed.get(LATENCY) == found


def test_a_request_whose_load_was_not_read_is_not_learned_from():
    producer, pool = LatencyProducer("p"), (server(0),)
    context = SchedulingContext(Request("r"), pool, 0.0, lambda: 0.0)
    assert producer.pre_request(context, Decision(Outcome.PICKED, ((pool[0],),))) == ()
    assert producer._pending == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": 500},
        {"status": 300},
        {"status": 199},
        {"status": 0},
        {"endpoint": server(9)},
        {"first_byte_s": -1.0, "ended_s": -1.0},
    ],
    ids=["failed", "moved", "not yet", "no response", "served elsewhere", "no time"],
)
def test_samples_without_information_are_not_learned(changes):
    producer, pool = LatencyProducer("p"), (server(0),)
    for _ in range(50):
        serve(producer, pool, pool[0], 100, 1.0, **changes)
    assert predictions(producer, pool) == [None]


@pytest.mark.parametrize(("given", "reads"), [({}, False), ({"streamingMode": True}, True)])
def test_bodies_are_read_for_streams_only(given, reads):
    assert LatencyProducer("p", convert(given, LatencyProducerParameters)).reads_bodies is reads


@pytest.mark.parametrize(("apart_s", "left"), [(400.0, 1), (301.0, 1), (300.0, 2), (100.0, 4)])
def test_requests_that_never_end_are_forgotten(apart_s, left):
    producer, pool = LatencyProducer("p"), (server(0),)
    for number in range(5):
        context = SchedulingContext(Request("r"), pool, 1000.0 + apart_s * number, lambda: 0.0)
        producer.produce(context)
        assert producer.pre_request(context, Decision(Outcome.PICKED, ((pool[0],),))) == ()
    assert len(producer._pending) == left


@pytest.mark.parametrize(
    ("given", "expected"), [({}, 300.0), ({"contextTTL": "90s"}, 90.0), ({"contextTTL": 10**9}, 1.0)]
)
def test_how_long_ends_are_waited_for(given, expected):
    assert convert(given, LatencyProducerParameters).context_ttl_s == expected


@pytest.mark.parametrize("given", [{"contextTTL": 0}, {"contextTTL": "soon"}, {"sloBufferFactor": 0}])
def test_parameters_are_checked(given):
    with pytest.raises(msgspec.ValidationError):
        convert(given, LatencyProducerParameters)


def test_what_is_cached_need_not_be_computed():
    pool = (server(0), server(1), server(2))
    context = SchedulingContext(Request("r", prompts=(b"x" * 4000,)), pool, 0.0, lambda: 0.0)
    producer = LatencyProducer("p", LatencyProducerParameters(prefix_match_info_producer_name="index"))
    before = list(producer._uncached(context))
    put_prefix(context, "index", PrefixMatch(16, 64, [2, 0, 16]))
    assert (before, list(producer._uncached(context))) == ([1000] * 3, [1000 - 128, 1000, 0])


def test_what_is_produced_and_read():
    assert [(each.name, each.produces, each.consumes) for each in TYPES] == [
        ("predicted-latency-producer", "latency", ("in-flight load",))
    ]


def test_the_features_of_a_busy_server_are_of_similar_magnitude():
    """A regression that learns one step at a time follows only features that are."""
    busy = Endpoint("a", "10.0.0.1:8000")
    busy.metrics = EndpointMetrics(waiting=20.0, running=20.0, kv_cache_usage=0.8)
    features = _ttft_features(busy, 4000, 20_000), _tpot_features(busy, 20_000)
    assert features == ((1.0, 4.0, 2.0, 2.0, 0.8, 2.0), (1.0, 2.0, 0.8, 2.0))
    assert tuple(map(len, features)) == (_TTFT_FEATURES, _TPOT_FEATURES)
