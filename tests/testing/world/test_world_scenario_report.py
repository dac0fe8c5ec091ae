"""The figures of a report, from what was recorded."""

import pytest

from modelplane.testing.world.scenario_report import counted, percentiles
from modelplane.testing.world.traffic import TrafficSlice
from modelplane.views.simulation_report import LatencyShown, RequestCounts


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([(7.4, 3.0)], LatencyShown(p50=7, p95=7, p99=7)),
        ([(float(value), 1.0) for value in range(1, 101)], LatencyShown(p50=50, p95=95, p99=99)),
        ([(900.0, 1.0), (10.0, 99.0)], LatencyShown(p50=10, p95=10, p99=10)),
        ([(10.0, 90.0), (900.0, 10.0)], LatencyShown(p50=10, p95=900, p99=900)),
    ],
    ids=["none", "one", "a hundred", "one of a hundred", "ten of a hundred"],
)
def test_percentiles_are_those_of_weights(values, expected):
    assert percentiles(values) == expected


def test_every_request_is_counted_once():
    slices = [TrafficSlice(1.0, requests=10, shed=2), TrafficSlice(2.0, failed=3), TrafficSlice(3.0, requests=5)]
    assert counted(slices, waiting=4) == RequestCounts(requests=15, served=6, shed=2, failed=3, waiting=4)
    assert counted([]) == RequestCounts()


def test_a_part_of_the_time_may_lose_more_than_came_in_it():
    assert counted([TrafficSlice(2.0, failed=3)]) == RequestCounts(failed=3)
