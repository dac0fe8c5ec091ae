"""What services carry, from whole sets of manifests."""

import pytest

from modelplane.api.timestamps import epoch_s
from modelplane.views.fleet_load import HourlyPrice, MeasuredTraffic
from modelplane.views.inputs import gather
from modelplane.views.service_load import ServiceLoad, TokenPrice, TokenRate, service_loads, token_price

API = "modelplane.ai/v1alpha1"
NOW = epoch_s("2026-01-01T00:01:00Z")
READY = {"type": "Ready", "status": "True", "reason": "Available"}
LABELS = {"app": "chat", "modelplane.ai/deployment": "chat", "modelplane.ai/revision": "r"}
POOL = {
    "name": "h200", "className": "h200-8x", "nodes": 2, "pricePerNodeHour": "80", "currency": "USD",
    "devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}],
}  # fmt: skip
EAST = {
    "apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": "east"},
    "spec": {"cluster": {"source": "Existing"}, "nodePools": []}, "status": {"conditions": [READY], "gpuPools": [POOL]},
}  # fmt: skip
TRAFFIC = {
    "revision": "r", "measuredAt": "2026-01-01T00:00:50Z", "windowSeconds": 60, "requests": 120, "errors": 6,
    "ttftP95Milliseconds": 80,
}  # fmt: skip


def replica(name, cluster="east"):
    member = {
        "role": "Standalone", "nodePoolName": "h200",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }  # fmt: skip
    return {
        "apiVersion": API, "kind": "ModelReplica", "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "clusterName": cluster, "deployment": {"name": "chat", "uid": "u"},
            "engines": [{"name": "main", "members": [member]}],
        },
    }  # fmt: skip


def endpoint(name, namespace="team", labels=LABELS, **spec):
    return {
        "apiVersion": API, "kind": "ModelEndpoint",
        "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec,
        "status": {"traffic": TRAFFIC} if name == "a" else {},
    }  # fmt: skip


def service(name, **labels):
    return {
        "apiVersion": API, "kind": "ModelService", "metadata": {"name": name, "namespace": "team"},
        "spec": {"endpoints": [{"selector": {"matchLabels": labels}}]},
        "status": {"endpoints": {"matched": 2, "ready": 1}},
    }  # fmt: skip


OWN = [endpoint("a", replica={"name": "a"}), endpoint("b", replica={"name": "b"}), endpoint("c", namespace="elsewhere")]


def loads(*services, endpoints=OWN, tokens=None):
    inputs = gather([EAST, replica("a"), replica("b")], now=NOW)
    return service_loads(inputs, services, endpoints, tokens or {})


def test_requests_tokens_devices_and_price_of_what_a_service_selects():
    rate = TokenRate(input_per_second=5.0, output_per_second=1.0)
    assert loads(service("api", app="chat"), tokens={"team/api": rate}) == (
        ServiceLoad(
            namespace="team", name="api", endpoints=2, ready_endpoints=1, devices=4, tokens=rate,
            price=HourlyPrice(40.0, "USD"),
            traffic=MeasuredTraffic(
                endpoints=1, requests_per_second=2.0, errors_per_second=0.1, ttft_p95_ms=80, latency_p95_ms=None
            ),
        ),
    )  # fmt: skip


def test_what_nobody_measured_is_not_known():
    (found,) = loads(service("other", app="x"))
    assert (found.endpoints, found.devices, found.traffic, found.tokens, found.price) == (0, 0, None, None, None)


def test_somebody_elses_endpoint_has_no_price():
    (found,) = loads(service("api", app="chat"), endpoints=[*OWN, endpoint("provider", url="http://x")])
    assert (found.endpoints, found.devices, found.price) == (3, 4, None)


def test_a_service_that_cannot_be_read_hides_no_other():
    broken = {**service("broken"), "spec": {"endpoints": 7}}
    assert [row.name for row in loads(broken, service("api", app="chat"))] == ["api"]


@pytest.mark.parametrize(
    ("price", "tokens", "seconds", "expected"),
    [
        (
            HourlyPrice(40.0, "USD"), 4_000_000, 1800.0,
            TokenPrice(per_million=5.0, currency="USD", tokens=4_000_000, hours=0.5),
        ),
        (None, 4_000_000, 1800.0, None),
        (HourlyPrice(40.0, "USD"), 0, 1800.0, None),
        (HourlyPrice(40.0, "USD"), 100, 59.0, None),
    ],
    ids=["known", "no price", "no tokens", "too short"],
)  # fmt: skip
def test_what_a_million_tokens_cost(price, tokens, seconds, expected):
    assert token_price(price, tokens, seconds) == expected
