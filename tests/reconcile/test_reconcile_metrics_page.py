"""Pages as real parsers read them."""

import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from modelplane.api.version import __version__
from modelplane.reconcile.metrics_page import FLEET_PAGE_METRICS, FleetPage, metrics_page
from modelplane.views.inputs import FleetManifests
from modelplane.views.metric_families import MetricSpec, SampleFamily, SecondsHistogram

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
READY = MetricSpec(name="modelplane_ready", labels=("cluster",), help="Whether it is ready.")
REQUESTS = MetricSpec(name="modelplane_requests", type="counter", labels=("status",), help="Requests.")
SECONDS = MetricSpec(name="modelplane_wait_seconds", type="histogram", labels=("by",), help="Waits.", unit="seconds")
FAMILIES = (
    SampleFamily(READY, {('a"b\\c\nd',): 1.0}),
    SampleFamily(REQUESTS, {("2xx",): 7}),
    SampleFamily(SECONDS, {("x",): SecondsHistogram((1.0, 2.5), (1, 2, 3), 20.5)}),
)


def samples(families):
    return {
        family.name: (family.type, {(s.name, *sorted(s.labels.items())): s.value for s in family.samples})
        for family in families
    }


def registry():
    made = CollectorRegistry()
    Counter("modelplane_function_calls", "Calls.", registry=made).inc(2)
    return made


def expected(histogram_name="modelplane_wait_seconds"):
    by = ("by", "x")
    buckets = {(f"{histogram_name}_bucket", by, ("le", le)): n for le, n in (("1.0", 1), ("2.5", 3), ("+Inf", 6))}
    return {
        "modelplane_ready": ("gauge", {("modelplane_ready", ("cluster", 'a"b\\c\nd')): 1.0}),
        "modelplane_requests": ("counter", {("modelplane_requests_total", ("status", "2xx")): 7}),
        histogram_name: (
            "histogram",
            {**buckets, (f"{histogram_name}_count", by): 6, (f"{histogram_name}_sum", by): 20.5},
        ),
    }


def test_a_page_of_openmetrics():
    page = metrics_page(FAMILIES, OPENMETRICS)
    assert page.content_type.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert samples(read_openmetrics(page.content.decode())) == expected()
    assert "# UNIT modelplane_wait_seconds seconds" in page.content.decode().splitlines()


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "nonsense;;"])
def test_a_page_for_whoever_does_not_know_openmetrics(accept):
    page = metrics_page(FAMILIES, accept)
    assert page.content_type.startswith("text/plain; version=")
    assert samples(read_text(page.content.decode())) == expected()


def test_what_the_host_counts_itself_comes_first():
    found = samples(read_openmetrics(metrics_page(FAMILIES[:1], OPENMETRICS, registry()).content.decode()))
    assert list(found) == ["modelplane_function_calls", "modelplane_ready"]
    assert found["modelplane_function_calls"][1]["modelplane_function_calls_total",] == 2


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")
def test_promtool_finds_nothing_to_improve():
    page = metrics_page(FAMILIES)
    checked = subprocess.run(["promtool", "check", "metrics"], input=page.content, capture_output=True, check=False)  # noqa: S607  where the machine has it
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_page_of_a_fleet_has_every_family_and_those_of_its_host():
    page = FleetPage(0.0)
    since = {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "a", "name": "chat-0", "namespace": "team"}
    ready = {"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:40Z"}
    replica = {"metadata": since, "spec": {"clusterName": "east", "engines": []}, "status": {"conditions": [ready]}}
    inputs = FleetManifests(replicas=(replica,))
    for _ in range(2):
        found = page.families(inputs, FAMILIES[:1])
        assert {family.spec for family in found} == {*FLEET_PAGE_METRICS, READY}
        values = {family.spec.name: family.values for family in found}
        assert values["modelplane_replicas_placed"] == {("team", ""): 1}
        assert values["modelplane_replica_ready_duration_seconds"]["team", ""].total_s == 40


def test_a_host_that_does_not_know_its_fleet_shows_itself():
    found = FleetPage(0.0).families(None, FAMILIES[:1])
    assert [family.spec.name for family in found] == [
        "modelplane_build",
        "modelplane_certificate_expiry_timestamp_seconds",
        "modelplane_ready",
    ]
    assert found[0].values == {(__version__,): 1}


CLUSTER = {"metadata": {"name": "east"}, "spec": {"cluster": {"source": "Existing"}}}


def clusters_of(families):
    (found,) = [family for family in families if family.spec.name == "modelplane_cluster_connected"]
    return sorted(found.values)


def test_what_is_computed_is_kept_for_its_revision_and_no_longer():
    page = FleetPage(0.0)
    first = page.families(FleetManifests(clusters=(CLUSTER,)), revision=1)
    assert clusters_of(first) == [("east",)]
    assert (page.has(1), page.has(2), page.has(None)) == (True, False, False)
    assert page.families(None, revision=1) == first
    counted = SampleFamily(REQUESTS, {("2xx",): 7})
    assert counted in page.families(None, [counted], revision=1)
    other = {**CLUSTER, "metadata": {"name": "west"}}
    assert clusters_of(page.families(FleetManifests(clusters=(other,)), revision=2)) == [("west",)]
    assert not page.has(1)


def test_a_host_without_revisions_computes_each_page():
    page = FleetPage(0.0)
    page.families(FleetManifests(clusters=(CLUSTER,)))
    assert clusters_of(page.families(FleetManifests())) == []
    assert [family.spec.name for family in page.families(None)] == [
        "modelplane_build",
        "modelplane_certificate_expiry_timestamp_seconds",
    ]
