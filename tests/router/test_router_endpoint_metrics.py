from modelplane.router.endpoint_metrics import BUCKETS_S, RouterEndpointMetrics
from tests.router.conftest import endpoint, plan


def counted(lines):
    """The counters and the sums, by what is before the value."""
    return dict(line.rsplit(" ", 1) for line in lines if "_bucket" not in line and not line.startswith("#"))


def test_every_endpoint_of_a_plan_has_counters_from_the_beginning():
    metrics = RouterEndpointMetrics()
    metrics.failed("team/a")
    metrics.succeeded("team/a", 0.1, 2.0)
    metrics.succeeded("team/gone", 0.1, 2.0)
    assert counted(metrics.lines(["team/b", "team/a"])) == {
        'modelplane_router_endpoint_requests_total{endpoint="team/a"}': "2",
        'modelplane_router_endpoint_requests_total{endpoint="team/b"}': "0",
        'modelplane_router_endpoint_errors_total{endpoint="team/a"}': "1",
        'modelplane_router_endpoint_errors_total{endpoint="team/b"}': "0",
        'modelplane_router_endpoint_ttft_seconds_sum{endpoint="team/a"}': "0.1",
        'modelplane_router_endpoint_ttft_seconds_count{endpoint="team/a"}': "1",
        'modelplane_router_endpoint_ttft_seconds_sum{endpoint="team/b"}': "0",
        'modelplane_router_endpoint_ttft_seconds_count{endpoint="team/b"}': "0",
        'modelplane_router_endpoint_duration_seconds_sum{endpoint="team/a"}': "2",
        'modelplane_router_endpoint_duration_seconds_count{endpoint="team/a"}': "1",
        'modelplane_router_endpoint_duration_seconds_sum{endpoint="team/b"}': "0",
        'modelplane_router_endpoint_duration_seconds_count{endpoint="team/b"}': "0",
    }
    assert (
        counted(metrics.lines(["team/gone"]))['modelplane_router_endpoint_requests_total{endpoint="team/gone"}'] == "0"
    )


def test_buckets_hold_what_is_below_their_bound():
    metrics = RouterEndpointMetrics()
    for seconds in (0.0, BUCKETS_S[0], 0.11, 1e9):
        metrics.succeeded("team/a", seconds, seconds)
    found = {
        line.split('le="')[1].split('"')[0]: int(line.rsplit(" ", 1)[1])
        for line in metrics.lines(["team/a"])
        if line.startswith("modelplane_router_endpoint_ttft_seconds_bucket")
    }
    assert len(found) == len(BUCKETS_S) + 1
    assert (found["0.005"], found["0.1"], found["0.15"], found["600"], found["+Inf"]) == (2, 2, 3, 3, 4)


def test_responses_count_at_the_endpoint_that_they_came_from(front):
    door = front(plan([endpoint("a")]))
    door.ask(200)
    door.ask(429)
    door.ask(500)
    door.end(door.send(), 503, unserved=True)
    door.now_s += 60.0
    door.end(door.send(), 0, cancelled=True)
    found = counted(door.director.endpoint_metrics.lines(door.catalog.endpoints.keys()))
    assert found['modelplane_router_endpoint_requests_total{endpoint="team/a"}'] == "4"
    assert found['modelplane_router_endpoint_errors_total{endpoint="team/a"}'] == "2"
    assert found['modelplane_router_endpoint_ttft_seconds_count{endpoint="team/a"}'] == "2"
