"""What is read out of metrics, and the differences between scrapes."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.crossplane.traffic_metrics import (
    Figure,
    Increase,
    Meter,
    MetricsUnreadable,
    TargetCounters,
    TrafficSeries,
    TrafficSource,
    by_meter,
    quantile,
    read_metrics,
    total,
)

ROUTER = Meter(TrafficSource.ROUTER, "team", "qwen-a")
ENVOY = Meter(TrafficSource.ENVOY, "mp-team-x", "qwen-a")
REQUESTS = TrafficSeries(ROUTER, Figure.REQUESTS, 0.0, frozenset())

TEXT = """\
# TYPE modelplane_router_endpoint_requests_total counter
modelplane_router_endpoint_requests_total{endpoint="team/qwen-a"} 12
modelplane_router_endpoint_errors_total{endpoint="team/qwen-a",instance="10.0.0.1:9091"} 3 1790000000000
modelplane_router_endpoint_ttft_seconds_bucket{endpoint="team/qwen-a",le="0.5"} 8
modelplane_router_endpoint_ttft_seconds_bucket{endpoint="team/qwen-a",le="+Inf"} 9
modelplane_router_endpoint_ttft_seconds_count{endpoint="team/qwen-a"} 9
modelplane_router_requests_total{caller="ada",service="team/chat",status="200"} 9
# TYPE envoy_cluster_upstream_rq_completed counter
envoy_cluster_upstream_rq_completed{envoy_cluster_name="httproute/mp-team-x/qwen-a/rule/0"} 40
envoy_cluster_upstream_rq_completed{envoy_cluster_name="xds_cluster"} 7
envoy_cluster_upstream_rq_xx{envoy_response_code_class="2",envoy_cluster_name="httproute/mp-team-x/qwen-a/rule/0"} 38
envoy_cluster_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="httproute/mp-team-x/qwen-a/rule/0"} 2
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="httproute/mp-team-x/qwen-a/rule/0",le="250"} 30
envoy_server_uptime 77
"""


def test_the_series_of_routers_and_gateways_are_read():
    found = {(each.meter, each.figure, each.most_ms): value for each, value in read_metrics(TEXT).items()}
    assert found == {
        (ROUTER, Figure.REQUESTS, 0.0): 12.0,
        (ROUTER, Figure.ERRORS, 0.0): 3.0,
        (ROUTER, Figure.TTFT, 500.0): 8.0,
        (ROUTER, Figure.TTFT, inf): 9.0,
        (ENVOY, Figure.REQUESTS, 0.0): 40.0,
        (ENVOY, Figure.ERRORS, 0.0): 2.0,
        (ENVOY, Figure.LATENCY, 250.0): 30.0,
    }


@pytest.mark.parametrize(
    "text",
    [
        'modelplane_router_endpoint_requests_total{endpoint="team/a"} many',
        'modelplane_router_endpoint_requests_total{endpoint="team/a" 1',
    ],
)
def test_what_is_no_metrics_is_refused(text):
    with pytest.raises(MetricsUnreadable):
        read_metrics(text)


@pytest.mark.parametrize(
    ("values", "increases"),
    [
        pytest.param([5.0], [{}], id="the first scrape is a beginning"),
        pytest.param([5.0, 9.0, 9.0], [{}, {REQUESTS: 4.0}, {REQUESTS: 0.0}], id="it grows"),
        pytest.param([5.0, 2.0], [{}, {REQUESTS: 2.0}], id="its process restarted"),
        pytest.param([None, 3.0], [{}, {REQUESTS: 3.0}], id="it appeared"),
    ],
)
def test_a_counter_says_what_happened_since_the_last_scrape(values, increases):
    target = TargetCounters()
    assert [target.increases({} if each is None else {REQUESTS: each}) for each in values] == increases


def test_processes_are_added():
    other = REQUESTS._replace(labels=frozenset({("pod", "b")}))
    slow = REQUESTS._replace(figure=Figure.TTFT, most_ms=100.0)
    found = by_meter([(REQUESTS, 2.0), (other, 3.0), (slow, 1.0)])
    assert found == {ROUTER: Increase(5.0, 0.0, {100.0: 1.0}, {})}
    assert total([found[ROUTER], found[ROUTER]]) == Increase(10.0, 0.0, {100.0: 2.0}, {})


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ({}, None),
        ({100.0: 0.0, inf: 0.0}, None),
        ({100.0: 100.0, inf: 100.0}, 95.0),
        ({100.0: 90.0, 200.0: 100.0, inf: 100.0}, 150.0),
        ({100.0: 10.0, inf: 100.0}, 100.0),
    ],
)
def test_a_percentile_lies_on_a_line_inside_its_bucket(buckets, expected):
    assert quantile(0.95, buckets) == expected


@given(st.lists(st.integers(1, 900), min_size=1, max_size=60))
def test_a_percentile_is_off_by_its_bucket_at_most(values):
    bounds = [float(bound) for bound in range(100, 1001, 100)]
    buckets = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    exact = sorted(values)[-(-95 * len(values) // 100) - 1]
    found = quantile(0.95, buckets)
    assert found is not None
    assert abs(found - exact) <= 100.0
