"""How full a pool is, by metrics and by the picker's own counts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.epp.flowcontrol.saturation import Concurrency, PoolSaturation, Utilization, detector_of, pool_saturation
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.filters import detectors
from modelplane.epp.scheduling.filters.detectors import ConcurrencyParameters, UtilizationDetectorParameters
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.units import convert

NOW_S = 100.0


def server(waiting=0.0, kv_cache_usage=0.0, scraped_s=NOW_S, requests=0, tokens=0, role="") -> Endpoint:
    return Endpoint(
        "ns/p",
        "10.0.0.1:8000",
        labels={"llm-d.ai/role": role} if role else {},
        metrics=EndpointMetrics(waiting=waiting, kv_cache_usage=kv_cache_usage, scraped_s=scraped_s),
        requests_in_flight=requests,
        tokens_in_flight=tokens,
    )


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([server(10, 0.1)], 2.0),
        ([server(1, 0.95)], 1.1875),
        ([server(10, 0.1), server(0, 0.08)], 1.05),
        ([], 1.0),
        ([server(50, 1.0, scraped_s=NOW_S - 0.3)], 0.0),
        ([server(50, 1.0, scraped_s=NOW_S - 0.3, requests=40)], 0.4),
        ([server(scraped_s=-1.0, requests=100_000)], 0.99),
        ([server(50, 1.0, scraped_s=NOW_S - 0.1)], 10.0),
    ],
    ids=[
        "queue",
        "cache",
        "mean",
        "no endpoint",
        "stale",
        "stale, by requests in flight",
        "never full",
        "not stale yet",
    ],
)
def test_utilization(endpoints, expected):
    assert Utilization().saturation(endpoints, NOW_S) == pytest.approx(expected)


def test_utilization_with_other_thresholds():
    parameters = convert(
        {"kvCacheUtilThreshold": 0.9, "metricsStalenessThreshold": "1m"}, UtilizationDetectorParameters
    )
    found = Utilization(parameters).saturation([server(1, 0.95, scraped_s=50.0)], NOW_S)
    assert found == pytest.approx(1.0556, abs=1e-4)


@pytest.mark.parametrize(
    ("mode", "expected"), [("requests", [0.2, 0.9]), ("tokens", [0.8, 0.1]), ("hybrid", [0.8, 0.9])]
)
def test_concurrency(mode, expected):
    given = {"concurrencyMode": mode, "maxConcurrency": 10, "maxTokenConcurrency": 100}
    detector = Concurrency(convert(given, ConcurrencyParameters))
    endpoints = [server(requests=2, tokens=80), server(requests=9, tokens=10)]
    assert [detector.saturation([endpoint], NOW_S) for endpoint in endpoints] == expected
    assert detector.saturation(endpoints, NOW_S) == pytest.approx(sum(expected) / 2)
    assert detector.saturation([], NOW_S) == 1.0


def test_a_pool_is_as_full_as_its_fullest_stage():
    endpoints = [server(1, role="decode"), server(0), server(4, role="prefill"), server(2, role="encode")]
    assert pool_saturation(Utilization(), endpoints, NOW_S) == pytest.approx(0.8)
    assert pool_saturation(Utilization(), [], NOW_S) == 1.0


def test_saturation_is_read_again_after_a_while_and_when_nearly_full():
    pool = (server(requests=5), server(requests=5))
    gauge = PoolSaturation(Concurrency(ConcurrencyParameters(max_concurrency=10)), every_s=1.0)
    assert gauge.read(pool, 0.0) == 0.5
    for endpoint in pool:
        gauge.released(0.0)
        endpoint.requests_in_flight += 1
    assert gauge.read(pool, 0.1) == pytest.approx(0.6)
    pool[0].requests_in_flight += 2
    assert gauge.read(pool, 0.2) == pytest.approx(0.6)
    assert gauge.read(pool, 1.2) == pytest.approx(0.7)
    assert gauge.read((), 1.2) == 1.0


@given(st.integers(1, 9), st.integers(1, 5), st.lists(st.integers(0, 8), max_size=60))
def test_no_request_is_let_go_beyond_what_endpoints_may_have(count, most, ends):
    pool = tuple(server() for _ in range(count))
    gauge = PoolSaturation(Concurrency(ConcurrencyParameters(max_concurrency=most)))
    for ended in [*ends, 0]:
        while gauge.read(pool, 0.0) < 1.0:
            gauge.released(0.0)
            min(pool, key=lambda endpoint: endpoint.requests_in_flight).requests_in_flight += 1
        assert max(endpoint.requests_in_flight for endpoint in pool) <= most
        pool[ended % count].requests_in_flight = 0


class Returns:
    """A detector of another package."""

    name = "theirs"

    def __init__(self, value):
        self._value = value

    def saturation(self, _endpoints, _now_s, _grown):
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.mark.parametrize(
    ("value", "saturation", "faults"),
    [
        (0.5, 0.5, []),
        (3, 3.0, []),
        (float("nan"), 0.0, ["plugin theirs: returned a saturation of nan, which is not 0 or more"]),
        (-1.0, 0.0, ["plugin theirs: returned a saturation of -1.0, which is not 0 or more"]),
        (RuntimeError("boom"), 0.0, ["plugin theirs: raised RuntimeError: boom"]),
    ],
    ids=["some", "more than full", "no number", "negative", "raises"],
)
def test_a_detector_of_another_package(value, saturation, faults):
    """One that fails stops no request: its fault is reported."""
    reported = []
    found = pool_saturation(detector_of(Returns(value), reported.append), [server()], NOW_S)
    assert (found, [str(fault) for fault in reported]) == (saturation, faults)


def test_the_rules_are_those_of_the_configured_detector():
    by_count = detectors.ConcurrencyDetector("c", ConcurrencyParameters(max_concurrency=4))
    by_metrics = detectors.UtilizationDetector("u", UtilizationDetectorParameters(queue_depth_threshold=2))
    endpoints = [server(waiting=5, requests=1)]
    found = [detector_of(plugin).saturation(endpoints, NOW_S) for plugin in (by_count, by_metrics, None)]
    assert found == [0.25, 2.5, 1.0]
    with pytest.raises(InputError, match="str is no saturation detector"):
        detector_of("something")


def test_a_full_queue_is_not_emptied_onto_idle_servers():
    pool = (server(), server())
    gauge, waiting, sent = PoolSaturation(Utilization()), 1000, []
    for look in range(6):
        for step in range(10):
            now_s = NOW_S + look * 0.1 + step * 0.01
            while waiting and gauge.read(pool, now_s) < 1.0:
                gauge.released(0.0)
                waiting -= 1
                pool[waiting % 2].requests_in_flight += 1
        sent.append(1000 - waiting)
        for endpoint in pool:
            endpoint.metrics = EndpointMetrics(running=endpoint.requests_in_flight, scraped_s=NOW_S + (look + 1) * 0.1)
    grown = [after - before for before, after in zip([0, *sent], sent, strict=False)]
    assert grown[0] <= 12
    assert all(after <= 3 * before + 12 for before, after in pairwise(grown))
    assert sent[-1] > 300


def test_where_as_many_end_as_are_sent_nothing_is_held_back():
    pool = (server(requests=50),)
    gauge = PoolSaturation(Utilization())
    for step in range(1000):
        assert gauge.read(pool, NOW_S + step / 10_000) < 1.0
        gauge.released(0.0)
