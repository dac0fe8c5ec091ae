"""The interval to the next scrape."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.datalayer.scrape.intervals import (
    MetricsInUse,
    ScrapeIntervals,
    ScrapeOutcome,
    next_interval_s,
    weight_left,
)

PACE = ScrapeIntervals(busy_s=0.1, warm_s=0.4, idle_s=1.6, failing_s=5, slow_s=10, scrapes_per_s=100)


@pytest.mark.parametrize(
    ("look", "often", "wait_s"),
    [
        (ScrapeOutcome(1.6, in_flight=True), 1, 0.1),
        (ScrapeOutcome(1.6, changed=True), 1, 0.1),
        (ScrapeOutcome(0.1), 1, 0.2),
        (ScrapeOutcome(0.2), 1, 0.4),
        (ScrapeOutcome(1.5), 1, 1.6),
        (ScrapeOutcome(0.2, working=True), 1, 0.4),
        (ScrapeOutcome(1.6, working=True), 1, 0.4),
        (ScrapeOutcome(0.1, in_flight=True), 10, 0.1),
        (ScrapeOutcome(0.1, in_flight=True), 50, 0.5),
        (ScrapeOutcome(0.1, in_flight=True), 1000, 10.0),
        (ScrapeOutcome(0.0), 1, 0.1),
        (ScrapeOutcome(0.1, failures=1, in_flight=True), 1, 0.2),
        (ScrapeOutcome(0.1, failures=3), 1, 0.8),
        (ScrapeOutcome(0.1, failures=30), 1, 5.0),
    ],
)
def test_by_what_happens(look, often, wait_s):
    assert next_interval_s(PACE, MetricsInUse(), look, often=often, chance=0.0) == pytest.approx(wait_s)


def test_a_busy_server_is_scraped_as_often_as_the_benchmarks_say():
    page = Path(__file__).resolve().parents[4] / "docs" / "benchmarks" / "picker.md"
    assert "scraped when the product would scrape them (five times a second under load" in page.read_text()
    busy = ScrapeOutcome(1.5, in_flight=True)
    assert next_interval_s(ScrapeIntervals(), MetricsInUse(), busy, often=1, chance=0.0) == pytest.approx(1 / 5)


def test_without_readers_of_the_load():
    assert (
        next_interval_s(PACE, MetricsInUse(load=False), ScrapeOutcome(0.1, in_flight=True), often=1, chance=0.0) == 10
    )


def test_jitter_shortens():
    waits = [
        next_interval_s(PACE, MetricsInUse(), ScrapeOutcome(9.0), often=1, chance=chance)
        for chance in (0.0, 0.5, 0.999)
    ]
    assert waits == pytest.approx([1.6, 1.52, 1.44], abs=0.001)


@given(st.floats(0, 100), st.integers(0, 50), st.booleans(), st.booleans(), st.integers(1, 500), st.floats(0, 0.999))
def test_never_longer_than_the_idle_interval_or_the_budget(wait_s, failures, in_flight, working, often, chance):
    look = ScrapeOutcome(wait_s, failures, in_flight, working=working)
    found = next_interval_s(PACE, MetricsInUse(), look, often=often, chance=chance)
    assert 0.1 * 0.9 <= found <= max(5.0 if failures else 1.6, often / 100)


@pytest.mark.parametrize("wrong", [{"busy_s": 0}, {"idle_s": -1}, {"jitter": 1}, {"scrapes_per_s": 0}])
def test_numbers_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="scraping"):
        ScrapeIntervals(**wrong)


@pytest.mark.parametrize(
    ("scraped_s", "since_s", "now_s", "share"),
    [
        (10.0, -1.0, 11.0, 1.0),
        (10.0, -1.0, 12.0, 1.0),
        (10.0, -1.0, 14.0, 0.5),
        (10.0, -1.0, 18.0, 0.125),
        (10.0, 14.0, 18.0, 0.25),
        (10.0, 11.0, 14.0, 0.5),
    ],
    ids=["fresh", "stale now", "a half-life later", "three", "in two steps", "a step while it was fresh"],
)
def test_stale_numbers_lose_half_of_their_weight_every_two_seconds(scraped_s, since_s, now_s, share):
    assert weight_left(ScrapeIntervals(), scraped_s, since_s, now_s) == share
