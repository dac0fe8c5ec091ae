"""What the gateways measured of endpoints: in every view, and pushed when it changes."""

import asyncio

import pytest

from modelplane.api.models import EndpointTraffic
from modelplane.envoy.access_log import ServedRequest
from modelplane.envoy.recent_traffic import RecentTraffic
from modelplane.web.traffic import with_traffic
from tests.support.dashboard_client import dashboard
from tests.support.dashboard_fleet import NOW, endpoint, fleet_objects

AT = "2026-08-29T10:40:00Z"
LIVE = EndpointTraffic(measured_at=AT, window_seconds=60, requests=120, errors=1, ttft_p95_milliseconds=40)
WRITTEN = {"revision": "r1", "measuredAt": AT, "windowSeconds": 10, "requests": 5, "errors": 0}
OLD = {**WRITTEN, "measuredAt": "2026-08-29T09:00:00Z"}
SHOWN = {
    "revision": "r1",
    "measuredAt": AT,
    "windowSeconds": 60,
    "requests": 120,
    "errors": 1,
    "ttftP95Milliseconds": 40,
}
IDLE = {"revision": "r1", "measuredAt": AT, "windowSeconds": 60, "requests": 0, "errors": 0}
FIGURES = {("default", "a"): LIVE}
CASES = [
    ("nobody measures", endpoint("e", "a", "east", "app"), None, None),
    ("requests of its replica", endpoint("e", "a", "east", "app"), FIGURES, SHOWN),
    ("a replica without requests had none", endpoint("e", "b", "east", "app"), FIGURES, IDLE),
    ("of another namespace", endpoint("e", "a", "east", "app", namespace="team"), FIGURES, IDLE),
    ("a provider's is not measured", endpoint("e", "", "", "app"), FIGURES, None),
    ("what a canary is judged by stays", endpoint("e", "a", "east", "app", traffic=WRITTEN), FIGURES, WRITTEN),
    ("unless it is old", endpoint("e", "a", "east", "app", traffic=OLD), FIGURES, SHOWN),
]


@pytest.mark.parametrize(("item", "figures", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_traffic_of_an_endpoint(item, figures, expected):
    place = item["metadata"]["namespace"], "e"
    found = with_traffic({place: item}, figures, NOW)
    assert found[place]["status"].get("traffic") == expected
    assert {**found[place], "status": item["status"]} == item


def test_figures_are_pushed_as_they_are_measured():
    async def main():
        recent = RecentTraffic()
        async with dashboard(fleet_objects(), traffic=recent) as client, client.stream("view=services") as events:
            seen = [await anext(events) for _ in range(2)]
            recent.add({"default/qwen3-8b-b": [ServedRequest("default/qwen3-8b-b", False, 50, 500)] * 60}, NOW)
            seen.append(await anext(events))
        return [value["rows"][0]["traffic"] for name, value in seen if name == "view"]

    before, after = asyncio.run(main())
    assert before == {
        "endpoints": 3,
        "requestsPerSecond": 5.0,
        "errorsPerSecond": 0.1,
        "ttftP95Ms": 180,
        "latencyP95Ms": 2400,
    }
    assert after == {
        "endpoints": 3,
        "requestsPerSecond": 6.0,
        "errorsPerSecond": 0.1,
        "ttftP95Ms": 180,
        "latencyP95Ms": 2400,
    }
