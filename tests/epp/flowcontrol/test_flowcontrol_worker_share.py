"""Limits that hold for all workers together: a simulation of workers that learn of each other late."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.epp.flowcontrol import BandSettings, FlowSettings, WorkerShare
from modelplane.epp.flowcontrol.saturation import Concurrency, PoolSaturation, Utilization
from modelplane.epp.flowcontrol.worker_share import LAG_S, TURN_S
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.filters.detectors import ConcurrencyParameters, DetectorMode


@pytest.mark.parametrize(
    ("limit", "workers", "parts"),
    [(0, 4, [0, 0, 0, 0]), (10, 4, [3, 3, 2, 2]), (8, 4, [2, 2, 2, 2]), (2, 4, [1, 1, 1, 1]), (7, 1, [7])],
)
def test_a_limit_is_divided_among_workers(limit, workers, parts):
    assert [WorkerShare(number, workers).of(limit) for number in range(workers)] == parts


def test_the_limits_of_queues_are_divided():
    whole = FlowSettings(
        max_requests=9, max_bytes=100, bands={5: BandSettings(3, 0)}, default_band=BandSettings(8, 16),
        negative_band=BandSettings(0, 2),
    )  # fmt: skip
    part = whole.divided(WorkerShare(0, 2))
    assert (part.max_requests, part.max_bytes) == (5, 50)
    found = [part.band(priority) for priority in (5, 0, -1)]
    assert [(band.max_requests, band.max_bytes) for band in found] == [(2, 0), (4, 8), (0, 1)]


class Worker:
    """One that has a queue without end, and knows what others dispatched after some time."""

    def __init__(self, number, workers, limit):
        self.endpoints = (Endpoint("a", "a:1"),)
        detector = Concurrency(ConcurrencyParameters(max_concurrency=limit))
        self.gauge = PoolSaturation(detector, share=WorkerShare(number, workers))
        self.news = []

    def dispatch(self, now_s):
        while self.news and self.news[0][0] <= now_s:
            self.endpoints[0].count(self.news.pop(0)[1], 0)
        sent = 0
        while self.gauge.to_dispatch_by(self.endpoints, now_s) < 1.0:
            self.endpoints[0].count(1, 0)
            self.gauge.released(now_s)
            sent += 1
        return sent


def simulate(workers, limit, lags, ends):
    """The most that were in flight at once, and how many are in the end, when nothing has ended for a while."""
    made = [Worker(number, workers, limit) for number in range(workers)]
    in_flight, most, lag, holders = 0, 0, iter(lags), []
    for step in range(int((workers + 3) * TURN_S / 0.002) + len(ends)):
        now_s = 100.0 + step * 0.002
        for number, worker in enumerate(made):
            changed = sent = worker.dispatch(now_s)
            holders += [number] * sent
            if step < len(ends) and ends[step] == number and number in holders:
                holders.remove(number)
                worker.endpoints[0].count(-1, 0)
                worker.gauge.ended()
                changed -= 1
            in_flight = len(holders)
            most = max(most, in_flight)
            for other in made:
                if changed and other is not worker:
                    known_s = max(now_s + next(lag), other.news[-1][0] if other.news else 0.0)
                    other.news.append((known_s, changed))
    return most, in_flight


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    workers=st.integers(2, 6),
    limit=st.integers(1, 40),
    lags=st.lists(st.floats(0.001, LAG_S * 0.9), min_size=1, max_size=9),
    ends=st.lists(st.integers(-1, 5), max_size=200),
)
def test_workers_together_fill_a_limit_and_never_more(workers, limit, lags, ends):
    cycled = (lags[at % len(lags)] for at in count())
    assert simulate(workers, limit, cycled, ends) == (limit, limit)


def test_shared_counts_alone_would_not_do():
    """Without the division each of four workers fills the pool at once."""
    made = [Worker(0, 1, 10) for _ in range(4)]
    assert sum(worker.dispatch(100.0) for worker in made) == 40


def test_limits_of_scraped_metrics_are_not_divided():
    endpoints = (Endpoint("a", "a:1"),)
    alone, one_of = PoolSaturation(Utilization()), PoolSaturation(Utilization(), share=WorkerShare(0, 4))
    assert one_of.to_dispatch_by(endpoints, 5.0) == alone.to_dispatch_by(endpoints, 5.0)


@pytest.mark.parametrize(("mode", "step"), [("requests", 0.05), ("tokens", 0.1), ("hybrid", 0.1)])
def test_what_a_request_adds(mode, step):
    parameters = ConcurrencyParameters(
        max_concurrency=10, max_token_concurrency=1000, concurrency_mode=DetectorMode(mode)
    )
    endpoints = (Endpoint("a", "a:1", requests_in_flight=2, tokens_in_flight=600), Endpoint("b", "b:1"))
    endpoints[1].count(1, 0)
    assert Concurrency(parameters).step(endpoints) == pytest.approx(step)
