"""Requests are counted as they pass, by the deployment of their replica."""

from modelplane.api.objects import API_VERSION, GROUP, manifest
from modelplane.apiserver.store.database import Database
from modelplane.envoy.access_log import ServedRequest
from modelplane.plane.request_counter import REQUESTS, RequestCounter
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock
from modelplane.views.metric_families import SampleFamily

REF = ObjectRef(GROUP, "ModelReplica", "team", "chat-0")


class Log:
    def __init__(self, *requests):
        self.requests = list(requests)

    def read(self):
        found, self.requests = self.requests, []
        return iter(found)


def request(status, replica="team/chat-0"):
    return ServedRequest(replica, status >= 500 or not status, 1, 2, status)


def counter(*requests):
    store = Database(None, clock=VirtualClock()).store("plane")
    spec = {"deployment": {"name": "chat"}}
    store.create(manifest(API_VERSION, "ModelReplica", "chat-0", namespace="team", spec=spec))
    log = Log(*requests)
    return store, log, RequestCounter(store, log)


def test_requests_pass_unchanged_and_are_counted_by_deployment_and_status():
    given = [request(200), request(201), request(404), request(503), request(0), request(200, "team/unknown")]
    _, _, counted = counter(*given)
    assert list(counted.read()) == given
    assert list(counted.read()) == []
    assert counted.family() == SampleFamily(
        REQUESTS,
        {
            ("team", "chat", "2xx"): 2,
            ("team", "chat", "4xx"): 1,
            ("team", "chat", "5xx"): 1,
            ("team", "chat", "none"): 1,
            ("team", "", "2xx"): 1,
        },
    )


def test_requests_of_a_replica_that_is_gone_count_for_its_deployment():
    store, log, counted = counter(request(200))
    assert len(list(counted.read())) == 1
    store.delete(REF)
    log.requests = [request(200)]
    assert len(list(counted.read())) == 1
    assert counted.family().values == {("team", "chat", "2xx"): 2}
