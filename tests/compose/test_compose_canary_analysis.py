"""What clients get from canaries, judged by limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import CanaryLimits, EndpointTraffic
from modelplane.compose.canary_analysis import (
    TrafficFigures,
    Verdict,
    analysed_window_s,
    canary_figures,
    endpoint_traffic,
    judge,
    percent,
    stable_figures,
)

NOW = 1_767_225_600.0
AT, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:03Z"


def figures(requests=100, errors=0, ttft=None, latency=None):
    return TrafficFigures(requests, errors, NOW, ttft, latency)


def limits(**given):
    return decode(CanaryLimits, {"minRequests": 20, **given})


PASSING, FAILING, TOO_FEW, NOT_MEASURED = Verdict.PASSING, Verdict.FAILING, Verdict.TOO_FEW, Verdict.NOT_MEASURED
RATE = {"maxErrorRate": "2%"}
NO_FACT = (
    "the requests of the canaries are not measured: status.traffic of their ModelEndpoints is absent or old; "
    "the step waits to be promoted"
)


@pytest.mark.parametrize(
    ("given", "canaries", "stable", "verdict", "message"),
    [
        (RATE, None, None, NOT_MEASURED, NO_FACT),
        (RATE, figures(19, 19), None, TOO_FEW, "19 of at least 20 requests in 60 s"),
        (RATE, figures(100, 2), None, PASSING, "2 of 100 requests failed (2.0 %, limit 2 %)"),
        (RATE, figures(140, 12), None, FAILING, "12 of 140 requests failed (8.6 %, limit 2 %)"),
        (
            {"maxErrorRate": "0%", "minRequests": 0},
            figures(0),
            None,
            PASSING,
            "0 of 0 requests failed (0.0 %, limit 0 %)",
        ),
        (
            {**RATE, "maxTtftMilliseconds": 800},
            figures(ttft=9),
            None,
            PASSING,
            "0 of 100 requests failed (0.0 %, limit 2 %); p95 TTFT 9 ms (limit 800 ms)",
        ),
        ({"maxTtftMilliseconds": 800}, figures(ttft=800), None, PASSING, "p95 TTFT 800 ms (limit 800 ms)"),
        ({"maxTtftMilliseconds": 800}, figures(ttft=801), None, FAILING, "p95 TTFT 801 ms (limit 800 ms)"),
        ({"maxTtftMilliseconds": 800}, figures(), None, NOT_MEASURED, "TTFT is not measured"),
        ({"maxLatencyMilliseconds": 9}, figures(latency=10), None, FAILING, "p95 latency 10 ms (limit 9 ms)"),
        (
            {"maxTtftMilliseconds": 800, "maxLatencyMilliseconds": 9},
            figures(),
            None,
            NOT_MEASURED,
            "TTFT is not measured; latency is not measured",
        ),
        (
            {**RATE, "maxTtftMilliseconds": 800},
            figures(100, 3, ttft=900),
            None,
            FAILING,
            "3 of 100 requests failed (3.0 %, limit 2 %); p95 TTFT 900 ms (limit 800 ms)",
        ),
        (
            {**RATE, "maxTtftMilliseconds": 800},
            figures(100, 3),
            None,
            FAILING,
            "3 of 100 requests failed (3.0 %, limit 2 %)",
        ),
        (
            {"stable": {"maxTtftPercent": 150}},
            figures(ttft=700),
            figures(ttft=400),
            FAILING,
            "p95 TTFT 700 ms, of the stable revision 400 ms (limit 150 % of it)",
        ),
        (
            {"stable": {"maxLatencyPercent": 150}},
            figures(20, latency=600),
            figures(20, latency=400),
            PASSING,
            "p95 latency 600 ms, of the stable revision 400 ms (limit 150 % of it)",
        ),
        (
            {"stable": {"maxErrorRateAbove": "1%"}},
            figures(100, 6),
            figures(100, 4),
            FAILING,
            "6 of 100 requests failed (6.0 %, limit 5 %)",
        ),
        ({"stable": {"maxTtftPercent": 150}}, figures(), figures(ttft=400), NOT_MEASURED, "TTFT is not measured"),
        ({"stable": {"maxTtftPercent": 150}}, figures(ttft=700), figures(), NOT_MEASURED, "TTFT is not measured"),
        (
            {"stable": {"maxErrorRateAbove": "1%"}},
            figures(100, 100),
            figures(100, 100),
            PASSING,
            "100 of 100 requests failed (100.0 %, limit 100 %)",
        ),
        (
            {"stable": {"maxTtftPercent": 150}},
            figures(ttft=700),
            None,
            NOT_MEASURED,
            "the requests of the stable revision are not measured",
        ),
        (
            {"stable": {"maxTtftPercent": 150}},
            figures(ttft=700),
            figures(19, ttft=1),
            NOT_MEASURED,
            "the stable revision has 19 of at least 20 requests",
        ),
    ],
)
def test_what_is_concluded(given, canaries, stable, verdict, message):
    found = judge(limits(**given), canaries, stable, NOW)
    assert (found.verdict, found.message) == (verdict, message)


def test_what_was_measured_before_is_no_pass_yet_and_may_fail():
    verdicts = [
        judge(limits(**RATE), figures(100, errors), None, NOW + later).verdict
        for errors, later in ((2, 0.9), (2, 1.0), (3, 1.0))
    ]
    assert verdicts == [PASSING, Verdict.MEASURING, FAILING]


FIGURES = st.none() | st.builds(
    figures, st.integers(0, 60), st.integers(0, 60), st.none() | st.integers(0, 3000), st.none() | st.integers(0, 3000)
)
LIMITS = st.fixed_dictionaries(
    {"minRequests": st.integers(1, 50)},
    optional={
        "maxErrorRate": st.sampled_from(["0%", "2%", "50%", "100%"]),
        "maxTtftMilliseconds": st.integers(1, 3000),
        "stable": st.fixed_dictionaries({}, optional={"maxTtftPercent": st.integers(1, 300)}),
    },
)


@given(LIMITS, FIGURES, FIGURES)
def test_too_few_requests_are_neither_a_pass_nor_a_halt(given, canaries, stable):
    found = judge(limits(**given), canaries, stable, NOW)
    if canaries is None or canaries.requests < given["minRequests"]:
        assert found.verdict in {TOO_FEW, NOT_MEASURED}
    assert found.message or found.verdict is PASSING


def endpoint(requests=10, errors=0, revision="new", of="new", at=AT, **more):
    traffic = {
        "revision": revision,
        "measuredAt": at,
        "windowSeconds": 60,
        "requests": requests,
        "errors": errors,
        **more,
    }
    return {"metadata": {"labels": {"modelplane.ai/revision": of}}, "status": {"traffic": traffic}}


def test_canaries_are_added_and_the_slowest_counts():
    slow = endpoint(30, 3, ttftP95Milliseconds=900, latencyP95Milliseconds=1000)
    fast = endpoint(10, 1, ttftP95Milliseconds=100, latencyP95Milliseconds=200)
    found = canary_figures([fast, slow, endpoint(5, 5, at=LATER)], NOW + 5)
    assert found == TrafficFigures(45, 9, NOW, 900, 1000)


def test_the_stable_revision_is_averaged_by_requests():
    slow = endpoint(30, 3, ttftP95Milliseconds=900)
    unknown = {"metadata": {}, "status": {}}
    found = stable_figures([endpoint(10, 1, at=LATER, ttftP95Milliseconds=100), slow, unknown], NOW + 5)
    assert found == TrafficFigures(40, 4, NOW, 700.0, None)


@pytest.mark.parametrize(
    ("items", "now"),
    [
        pytest.param([], NOW, id="no canary"),
        pytest.param([endpoint(), {"metadata": {}}], NOW, id="one of two is not measured"),
        pytest.param([endpoint(revision="old")], NOW, id="measured under another revision"),
        pytest.param([endpoint()], NOW + 121, id="measured long ago"),
        pytest.param([endpoint()], 0.0, id="no time is known"),
        pytest.param([endpoint(at="soon")], NOW, id="no time"),
        pytest.param([endpoint(requests="many")], NOW, id="garbled"),
    ],
)
def test_what_is_no_measurement(items, now):
    assert canary_figures(items, now) is None


def test_a_measurement_counts_for_its_window_and_a_minute():
    assert canary_figures([endpoint()], NOW + 120) == TrafficFigures(10, 0, NOW)
    measured = EndpointTraffic(revision="new", measured_at=AT, window_seconds=60, requests=10, errors=0)
    assert [endpoint_traffic(endpoint(), NOW + later) for later in (120, 121)] == [measured, None]


def test_percentages():
    assert [percent(text) for text in ("0%", "0.5%", "100%")] == [0.0, 0.5, 100.0]


@pytest.mark.parametrize(
    ("analysis", "rollout", "expected"),
    [
        ({"windowSeconds": 120}, {"promoted": False}, 120),
        ({"maxErrorRate": "2%"}, {"promoted": False}, 60),
        ({"windowSeconds": 120}, {"promoted": True}, None),
        ({"windowSeconds": 120}, {}, None),
        ({"windowSeconds": 120}, {"promoted": False, "halted": {"message": "x"}}, None),
        (None, {"promoted": False}, None),
        (7, {"promoted": False}, None),
    ],
)
def test_canaries_are_measured_while_they_are_analysed(analysis, rollout, expected):
    spec = {"rollout": {"canary": {"analysis": analysis}}}
    assert analysed_window_s({"spec": spec, "status": {"rollout": rollout}}) == expected
