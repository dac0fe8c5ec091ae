"""How full a pool is, by metrics and by the picker's own counts."""

import pytest

from modelplane.api.errors import InputError
from modelplane.picker.endpoints import Endpoint, Load
from modelplane.picker.filters import detectors
from modelplane.picker.filters.detectors import ConcurrencyParameters, UtilizationParameters
from modelplane.picker.flow.saturation import Concurrency, PoolGauge, Utilization, detector_of, pool_saturation
from modelplane.picker.units import convert

NOW_S = 100.0


def server(waiting=0.0, kv_use=0.0, seen_s=NOW_S, requests=0, tokens=0, role="") -> Endpoint:
    return Endpoint(
        "ns/p",
        "10.0.0.1:8000",
        labels={"llm-d.ai/role": role} if role else {},
        load=Load(waiting=waiting, kv_use=kv_use, seen_s=seen_s),
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
        ([server(50, 1.0, seen_s=NOW_S - 0.3)], 0.0),
        ([server(50, 1.0, seen_s=NOW_S - 0.3, requests=40)], 0.4),
        ([server(seen_s=-1.0, requests=100_000)], 0.99),
        ([server(50, 1.0, seen_s=NOW_S - 0.1)], 10.0),
    ],
    ids=["queue", "cache", "mean", "nobody", "stale", "stale, by requests in flight", "never full", "not stale yet"],
)
def test_utilization(endpoints, expected):
    assert Utilization().saturation(endpoints, NOW_S) == pytest.approx(expected)


def test_utilization_with_other_thresholds():
    parameters = convert({"kvCacheUtilThreshold": 0.9, "metricsStalenessThreshold": "1m"}, UtilizationParameters)
    found = Utilization(parameters).saturation([server(1, 0.95, seen_s=50.0)], NOW_S)
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


def test_the_gauge_follows_releases_between_two_looks():
    endpoints = (server(requests=5), server(requests=5))
    gauge = PoolGauge(Concurrency(ConcurrencyParameters(max_concurrency=10)), every_s=1.0)
    assert gauge.read(endpoints, 0.0) == 0.5
    gauge.released()
    gauge.released()
    assert gauge.read(endpoints, 0.5) == pytest.approx(0.6)
    assert gauge.read(endpoints, 1.0) == 0.5
    assert gauge.read((), 1.0) == 1.0


def test_the_rules_are_those_of_the_configured_detector():
    by_count = detectors.ConcurrencyDetector("c", ConcurrencyParameters(max_concurrency=4))
    by_metrics = detectors.UtilizationDetector("u", UtilizationParameters(queue_depth_threshold=2))
    endpoints = [server(waiting=5, requests=1)]
    found = [detector_of(plugin).saturation(endpoints, NOW_S) for plugin in (by_count, by_metrics, None)]
    assert found == [0.25, 2.5, 1.0]
    with pytest.raises(InputError, match="str is no saturation detector"):
        detector_of("something")
