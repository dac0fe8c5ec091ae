"""One page for all workers: what is summed and what is not, and that sums never fall."""

import os

import msgspec
import pytest

from modelplane.epp.server.observe.families import Aggregation, Family, MetricType, text_of
from modelplane.epp.server.observe.metrics import Histogram
from modelplane.epp.server.observe.worker_pages import (
    FamilyMessage,
    WorkerPages,
    aggregate,
    family_of,
    message_of,
    process_families,
    restart_family,
    worker_families,
)


def counter(value, name="requests_total"):
    return Family(MetricType.COUNTER, name, "Requests.", ("model",), {("m",): value})


def gauge(value, aggregation=Aggregation.SUM, name="running"):
    return Family(MetricType.GAUGE, name, "Running.", (), {} if value is None else {(): value}, aggregation)


def histogram(*values):
    made = Histogram((1.0, 2.0))
    for value in values:
        made.add(value)
    return Family(MetricType.HISTOGRAM, "seconds", "Seconds.", (), {(): made})


@pytest.mark.parametrize(
    ("aggregation", "values", "expected"),
    [
        (Aggregation.SUM, [1, 2, 3], 6),
        (Aggregation.MAX, [1, 3, 2], 3),
        (Aggregation.MEAN, [0.5, 0.25, 0.75], 0.5),
        (Aggregation.FIRST, [7, 3, 2], 7),
        (Aggregation.FIRST, [None, 3, 2], 3),
    ],
)
def test_gauges_are_what_their_family_says(aggregation, values, expected):
    assert aggregate([gauge(value, aggregation) for value in values]).values == {(): expected}


def test_counters_and_histograms_are_summed():
    assert aggregate([counter(2), counter(3), counter(5)]).values == {("m",): 10}
    found = aggregate([histogram(0.5, 3.0), histogram(1.5)]).values[()]
    assert (found.counts, found.total) == ([1, 1, 1], 5.0)


def test_a_family_is_the_same_after_its_journey():
    for family in (counter(2), gauge(0.5, Aggregation.MEAN), histogram(0.5, 3.0)):
        message = msgspec.msgpack.decode(msgspec.msgpack.encode(message_of(family)), type=FamilyMessage)
        found = family_of(message)
        assert (found.type, found.aggregation, found.labels) == (family.type, family.aggregation, tuple(family.labels))
        assert text_of([found]) == text_of([family])


def values(pages):
    return {family.name: dict(family.values) for family in pages.families()}


def test_what_a_worker_that_ended_had_counted_stays_and_its_gauges_go():
    pages = WorkerPages(lambda: [gauge(9, Aggregation.FIRST, "endpoints")])
    pages.replace(0, [counter(5), gauge(2)])
    pages.replace(1, [counter(1), gauge(1)])
    assert values(pages) == {"endpoints": {(): 9}, "requests_total": {("m",): 6}, "running": {(): 3}}
    pages.retire(0)
    assert values(pages) == {"endpoints": {(): 9}, "requests_total": {("m",): 6}, "running": {(): 1}}
    pages.replace(0, [counter(2), gauge(1)])
    pages.retire(0)
    pages.retire(0)
    assert values(pages)["requests_total"] == {("m",): 8}
    assert b"".join(pages.parts()) == text_of(pages.families())


def test_counts_of_endpoints_that_are_gone_are_not_kept():
    name = "llm_d_epp_scheduler_attempts_total"
    labels = ("status", "target_model_name", "endpoint_name", "namespace", "port")
    counts = {
        ("success", "m", "a", "ns", "80"): 3,
        ("success", "m", "b", "ns", "80"): 4,
        ("failure", "m", "", "", ""): 5,
    }
    pages = WorkerPages(list)
    pages.replace(0, [Family(MetricType.COUNTER, name, "Attempts.", labels, counts)])
    pages.retire(0)
    pages.keep_endpoints({("b", "ns", "80")})
    assert values(pages) == {name: {key: value for key, value in counts.items() if key[2] != "a"}}


def test_what_a_worker_shows_of_itself():
    found = {family.name: dict(family.values) for family in worker_families(3, 17)}
    assert found["llm_d_epp_worker_info"] == {("3", str(os.getpid())): 1}
    assert found["llm_d_epp_worker_requests_total"] == {("3",): 17}
    assert found["process_resident_memory_bytes"][()] > 1 << 20
    assert restart_family({0: 0, 1: 2}).values == {("0",): 0, ("1",): 2}


def test_cpu_is_summed_over_processes_and_the_start_is_that_of_the_first():
    by_name = {family.name: family for family in process_families()}
    assert by_name["process_cpu_seconds_total"].type is MetricType.COUNTER
    assert by_name["process_start_time_seconds"].aggregation is Aggregation.FIRST
    assert by_name["process_open_fds"].aggregation is Aggregation.SUM
