"""A model that is applied together with its clusters, on Crossplane: each call sees what was ready then."""

from modelplane.crossplane.calls import FunctionCall, answer

API = "modelplane.ai/v1alpha1"
SINCE = "2026-01-01T00:00:00Z"
NOW = 1767225600.0
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
READY = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": SINCE}],
    "gateway": {"address": "192.0.2.1"},
    "gpuPools": [{"name": "gpus", "nodes": 2, "devices": [GPU]}],
}
SELECTED = [{"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "d"'}]}]
DEPLOYMENT = {
    "apiVersion": API,
    "kind": "ModelDeployment",
    "metadata": {"name": "chat", "namespace": "team", "uid": "u", "generation": 1, "creationTimestamp": SINCE},
    "spec": {
        "replicas": 2,
        "nodeSelector": {"devices": SELECTED},
        "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["m"]}]}}},
    },
}


def cluster(name, status):
    source = {"source": "Existing", "existing": {"secretRef": {"name": name}}}
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": SINCE},
        "spec": {"cluster": source, "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 2}]},
        "status": status,
    }


def called(west, now, observed=()):
    required = {
        "clusters": (cluster("east", READY), cluster("west", west)),
        "replicas": tuple(dict(observed).values()),
        "caches": (),
    }
    found = answer(FunctionCall(DEPLOYMENT, dict(observed), required), now)
    return {key: dict(each.manifest) for key, each in found.resources.items()}


def test_each_cluster_gets_a_replica_whichever_is_ready_first():
    first = called({}, NOW + 1)
    assert sorted(first) == ["replica-east-0"]
    assert sorted(called(READY, NOW + 5, first)) == ["replica-east-0", "replica-west-0"]


def test_a_cluster_that_does_not_come_is_not_waited_for():
    first = called({}, NOW + 1)
    assert sorted(called({}, NOW + 29, first)) == ["replica-east-0"]
    assert sorted(called({}, NOW + 30, first)) == ["replica-east-0", "replica-east-1"]
