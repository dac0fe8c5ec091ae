"""Requests of the last minute by replica."""

import pytest

from modelplane.api.models import EndpointTraffic
from modelplane.envoy.access_log import ServedRequest
from modelplane.envoy.recent_traffic import RecentTraffic

NOW = 1_750_000_000.0
AT = "2025-06-15T15:06:40Z"


def served(*milliseconds, failed=False):
    return [ServedRequest("team/a", failed, each, each and each * 10) for each in milliseconds]


def figures(requests, errors, ttft=None, latency=None):
    return EndpointTraffic(
        measured_at=AT, window_seconds=60, requests=requests, errors=errors,
        ttft_p95_milliseconds=ttft, latency_p95_milliseconds=latency,
    )  # fmt: skip


CASES = [
    ("nothing", [], {}),
    ("requests", [(0, served(1, 2, 3))], {("team", "a"): figures(3, 0, 3, 30)}),
    ("errors have no times", [(0, [*served(1), *served(9, failed=True)])], {("team", "a"): figures(2, 1, 1, 10)}),
    ("only errors", [(0, served(9, failed=True))], {("team", "a"): figures(1, 1)}),
    ("a response without a first byte", [(0, served(None))], {("team", "a"): figures(1, 0)}),
    ("several measurements", [(40, served(1)), (2, served(5))], {("team", "a"): figures(2, 0, 5, 50)}),
    ("those of a minute ago are forgotten", [(60, served(1)), (59, served(5))],
     {("team", "a"): figures(1, 0, 5, 50)}),
    ("all counts, of the first hundred times", [(0, served(*[1] * 100, *[7] * 50))],
     {("team", "a"): figures(150, 0, 1, 10)}),
]  # fmt: skip


@pytest.mark.parametrize(("measured", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_figures_of_the_last_minute(measured, expected):
    recent = RecentTraffic()
    for age_s, requests in measured:
        recent.add({"team/a": requests}, NOW - age_s)
    recent.add({}, NOW)
    assert recent.figures(NOW) == expected


def test_listeners_are_called_while_figures_change():
    recent, calls = RecentTraffic(), []
    unsubscribe = recent.subscribe(lambda: calls.append(len(recent.figures(NOW))))
    recent.add({}, NOW)
    assert calls == []
    recent.add({"team/a": served(1)}, NOW)
    recent.add({}, NOW + 61)
    recent.add({}, NOW + 63)
    assert calls == [1, 0]
    unsubscribe()
    recent.add({"team/a": served(1)}, NOW)
    assert calls == [1, 0]
