"""Where telemetry goes, and who sends it."""

from modelplane.api.objects import API_VERSION, manifest
from modelplane.views.health import ObjectHealth
from modelplane.web.shapes import TelemetryShown
from modelplane.web.snapshot import DashboardSnapshot
from modelplane.web.summary import overview_page
from modelplane.web.telemetry_views import telemetry_rows
from tests.support.dashboard_fleet import NOW, by_kind, cluster, more, not_ready, pool, ready


def snapshot(*objects):
    return DashboardSnapshot.of(by_kind(objects), now=NOW)


def destination(name, **status):
    sinks = [{"name": each, "type": "otlphttp", "endpoint": "https://x.example:4318"} for each in ("a", "b")]
    return manifest(API_VERSION, "TelemetryDestination", name, spec={"sinks": sinks}, status=status)


SENDS = cluster("east", pool(), more=[more("TelemetryReady", "CollectorRunning", "")])
FAILS = cluster("west", pool(), more=[more("TelemetryReady", "CollectorStarting", "", "False")])


def test_without_a_destination_there_is_no_row():
    assert telemetry_rows(snapshot(SENDS)) == ()


def test_a_destination_has_its_health_its_sinks_and_the_clusters_that_send():
    missing = not_ready("SecretMissing", "Secret x is missing")
    fine, broken = destination("fine", conditions=[ready()], sinks=1), destination("broken", conditions=[missing])
    assert telemetry_rows(snapshot(SENDS, FAILS, fine, broken)) == (
        TelemetryShown(
            name="broken", health=ObjectHealth("NotReady", "SecretMissing: Secret x is missing"), sinks=2, sending=1,
            clusters=2,
        ),
        TelemetryShown(name="fine", health=ObjectHealth("Ready", ""), sinks=1, sending=1, clusters=2),
    )  # fmt: skip


def test_one_that_is_not_ready_is_among_the_problems():
    page = overview_page(snapshot(SENDS, destination("broken", conditions=[not_ready("SecretMissing", "x")])))
    assert [(row.object_kind, row.name, row.state) for row in page.problems] == [
        ("TelemetryDestination", "broken", "NotReady")
    ]
