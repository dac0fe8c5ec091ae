"""What is measured of the endpoints of canaries, and of which endpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.objects import GROUP, manifest
from modelplane.apiserver.store.database import Database
from modelplane.envoy.access_log import ServedRequest
from modelplane.plane.traffic_meter import TrafficMeter, percentile
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock

ANALYSIS = {"windowSeconds": 10, "maxErrorRate": "2%"}
REF = ObjectRef(GROUP, "ModelEndpoint", "team", "chat-1")


class Log:
    def __init__(self):
        self.requests = []

    def read(self):
        found, self.requests = self.requests, []
        return iter(found)


def deployment(analysis=ANALYSIS, **rollout):
    spec = {"rollout": {"canary": {"analysis": analysis} if analysis else {}}}
    item = manifest(f"{GROUP}/v1alpha1", "ModelDeployment", "chat", namespace="team", spec=spec)
    return {**item, "status": {"rollout": {"promoted": False, **rollout}}}


def endpoint(revision="new"):
    labels = {"modelplane.ai/deployment": "chat", "modelplane.ai/revision": revision}
    spec = {"url": "http://a", "replica": {"name": "chat-1", "clusterName": "east"}}
    item = manifest(f"{GROUP}/v1alpha1", "ModelEndpoint", "chat-1", namespace="team", labels=labels, spec=spec)
    return {**item, "status": {"routing": {"backendName": "chat-1"}}}


def answered(*milliseconds, failed=False, replica="team/chat-1"):
    return [ServedRequest(replica, failed, each, each * 10) for each in milliseconds]


def world(item=None):
    clock, log = VirtualClock(), Log()
    store = Database(None, clock=clock).store("plane")
    for made in (item or deployment(), endpoint()):
        bare = {name: value for name, value in made.items() if name != "status"}
        store.replace_status({**store.create(bare), "status": made["status"]})
    return store, log, clock, TrafficMeter(store, log, clock)


def traffic(store):
    found = store.get(REF)["status"].get("traffic")
    return found and {name: value for name, value in found.items() if name != "measuredAt"}


def test_a_window_of_requests_is_written_and_forgotten():
    store, log, clock, meter = world()
    log.requests = answered(1)
    meter.measure()
    assert traffic(store) == {"revision": "new", "windowSeconds": 10, "requests": 0, "errors": 0}
    log.requests = [*answered(40, 80), *answered(5, failed=True), *answered(7, replica="team/other")]
    meter.measure()
    figures = {"requests": 3, "errors": 1, "ttftP95Milliseconds": 80, "latencyP95Milliseconds": 800}
    assert traffic(store) == {"revision": "new", "windowSeconds": 10, **figures}
    assert store.get(REF)["status"]["routing"] == {"backendName": "chat-1"}
    clock.advance(11)
    meter.measure()
    assert traffic(store)["requests"] == 0


def test_another_revision_begins_a_new_window():
    store, log, _, meter = world()
    meter.measure()
    log.requests = answered(40)
    meter.measure()
    item = store.get(REF)
    store.replace({**item, "metadata": {**item["metadata"], "labels": endpoint("newer")["metadata"]["labels"]}})
    log.requests = answered(40)
    meter.measure()
    assert traffic(store) == {"revision": "newer", "windowSeconds": 10, "requests": 0, "errors": 0}


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(deployment(analysis=None), id="no analysis"),
        pytest.param(deployment(promoted=True), id="promoted"),
        pytest.param(deployment(halted={"message": "m"}), id="halted"),
    ],
)
def test_what_nobody_reads_is_not_written(item):
    store, log, _, meter = world(item)
    log.requests = answered(40)
    meter.measure()
    assert traffic(store) is None


@given(st.lists(st.integers(0, 10_000), min_size=1))
def test_the_percentile_is_one_of_them_that_few_exceed(values):
    found = percentile(values)
    assert found in values
    assert sum(value > found for value in values) <= 0.05 * len(values)


def test_no_values_have_no_percentile():
    assert percentile([None]) is None
