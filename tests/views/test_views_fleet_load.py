"""What `top` shows, from whole sets of manifests."""

import pytest

from modelplane.api.timestamps import epoch_s
from modelplane.views.fleet_load import (
    ClassLoad,
    DeploymentLoad,
    DeviceLoad,
    FleetLoad,
    HourlyPrice,
    MeasuredTraffic,
    PoolLoad,
    fleet_load,
)
from modelplane.views.inputs import gather

API = "modelplane.ai/v1alpha1"
NOW = epoch_s("2026-01-01T00:01:00Z")
READY = {"type": "Ready", "status": "True", "reason": "Available"}
GPU = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}


def cluster(name, *, devices=(), lost=None, currency="USD", **pool):
    priced = {"pricePerNodeHour": "80", "currency": currency} if currency else {}
    shown = {"name": "h200", "className": "h200-8x", "nodes": 2, "devices": list(devices), **priced, **pool}
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {"cluster": {"source": "Existing"}, "nodePools": []},
        "status": {"conditions": [READY], "gpuPools": [shown], **({} if lost is None else {"lostDevices": lost})},
    }


def replica(name, where, *, status="True"):
    member = {
        "role": "Standalone",
        "nodePoolName": "h200",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "clusterName": where,
            "index": int(name.rpartition("-")[2]),
            "deployment": {"name": "chat", "uid": "u"},
            "engines": [{"name": "main", "members": [member]}],
        },
        "status": {"conditions": [{**READY, "status": status}]},
    }


DEPLOYMENT = {
    "apiVersion": API,
    "kind": "ModelDeployment",
    "metadata": {"name": "chat", "namespace": "team", "uid": "u"},
    "spec": {"replicas": 2},
    "status": {"readyReplicas": 1},
}


def endpoint(name, namespace="team", **traffic):
    measured = {"revision": "r", "measuredAt": "2026-01-01T00:00:50Z", "windowSeconds": 60, "errors": 0, **traffic}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"modelplane.ai/deployment": "chat", "modelplane.ai/revision": "r"},
        },
        "status": {"traffic": measured} if traffic else {},
    }


EAST = cluster("east", devices=[{**GPU, "allocated": 4, "heldByOthers": 1, "missing": 1, "free": 10}], observedNodes=2)
LOST = cluster("west", devices=[{**GPU, "allocated": 2, "free": 0}], lost=14, currency=None)
MEASURED = [
    endpoint("a", requests=120, errors=6, ttftP95Milliseconds=80, latencyP95Milliseconds=900),
    endpoint("b", requests=60, ttftP95Milliseconds=95),
    endpoint("old", requests=600, measuredAt="2025-12-31T00:00:00Z"),
    endpoint("unmeasured"),
    endpoint("other", namespace="elsewhere", requests=6000),
]


def loaded(*manifests, endpoints=()):
    return fleet_load(gather(manifests, now=NOW), endpoints)


def test_a_fleet_by_class_pool_and_deployment():
    replicas = [replica("chat-0", "east"), replica("chat-1", "east", status="False")]
    east = DeviceLoad(devices=16, used=4, others=1, free=10, missing=1)
    price = HourlyPrice(160.0, "USD")
    assert loaded(EAST, *replicas, DEPLOYMENT, endpoints=MEASURED) == FleetLoad(
        classes=(ClassLoad(class_name="h200-8x", clusters=1, nodes=2, load=east, price=price),),
        pools=(
            PoolLoad(
                cluster="east", pool="h200", class_name="h200-8x", nodes=2, load=east,
                replicas=2, ready_replicas=1, price=price,
            ),
        ),
        deployments=(
            DeploymentLoad(
                namespace="team", name="chat", replicas=2, ready_replicas=1, devices=4, endpoints=4,
                traffic=MeasuredTraffic(
                    endpoints=2, requests_per_second=3.0, errors_per_second=0.1, ttft_p95_ms=95, latency_p95_ms=900
                ),
                price=HourlyPrice(40.0, "USD"),
            ),
        ),
    )  # fmt: skip


def test_what_is_not_known_is_none_and_never_zero():
    found = loaded(EAST, LOST, replica("chat-0", "west"), DEPLOYMENT, endpoints=[endpoint("a")])
    assert found.pools[1].load == DeviceLoad(devices=16, used=2, lost=14)
    assert (found.pools[1].price, found.classes[0].price) == (None, None)
    assert (found.deployments[0].traffic, found.deployments[0].price) == (None, None)
    assert found.classes[0].load == DeviceLoad(devices=32, used=6, others=1, free=10, missing=1, lost=14)


def test_an_empty_fleet():
    assert loaded() == FleetLoad()


WHOLE = {**GPU, "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "80Gi"}}}]}
SLICE = {**WHOLE, "name": "slice", "count": 56, "deviceClassName": "mig.nvidia.com"}


@pytest.mark.parametrize(
    ("devices", "lost", "expected"),
    [
        ([{**GPU, "allocated": 3, "free": 13}], None, DeviceLoad(devices=16, used=3, free=13)),
        (
            [{**GPU, "allocated": 3, "free": 13}, {**GPU, "name": "b", "allocated": 3, "free": 13}],
            None,
            DeviceLoad(devices=32, used=3, free=26),
        ),
        ([{**GPU, "claim": "Synthetic", "free": 16}], None, DeviceLoad()),
        (
            [{**WHOLE, "allocated": 0, "free": 14}, {**SLICE, "allocated": 5, "free": 107}],
            None,
            DeviceLoad(devices=16, used=2, free=14),
        ),
        ([{**WHOLE, "free": 0}], 16, DeviceLoad(devices=16, used=None, lost=16)),
        ([{**GPU, "allowMultipleAllocations": True, "allocated": 9, "free": 12}], None,
         DeviceLoad(devices=16, used=None, free=12)),
    ],
    ids=["whole", "two kinds of a class", "synthetic", "partitions", "partitions of a lost cluster", "shared"],
)  # fmt: skip
def test_devices_by_who_has_them(devices, lost, expected):
    assert loaded(cluster("east", devices=devices, lost=lost)).pools[0].load == expected


def test_prices_of_two_currencies_are_not_added():
    east, west = cluster("east", devices=[GPU]), cluster("west", devices=[GPU], currency="EUR")
    found = loaded(east, west)
    assert [pool.price for pool in found.pools] == [HourlyPrice(160.0, "USD"), HourlyPrice(160.0, "EUR")]
    assert found.classes[0].price is None


def test_a_cluster_that_was_never_observed_has_no_devices_whether_its_class_is_there_or_not():
    pools = [{"name": "h200", "className": "absent", "nodeCount": 2}]
    source = {"source": "Existing", "existing": {"secretRef": {"name": "new"}}}
    spec = {"cluster": source, "nodePools": pools}
    assert (
        loaded({"apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": "new"}, "spec": spec})
        == FleetLoad()
    )
