from modelplane.views.health import ObjectHealth
from modelplane.views.overview import ClusterRow, DeploymentRow, ReplicaRow, ServiceRow, overview

READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
STARTING = {"conditions": [{"type": "Ready", "status": "False", "reason": "Starting", "message": "1 of 2"}]}
TEMPLATE = {"spec": {"containers": [{"name": "engine", "image": "x"}]}}


def test_every_kind_becomes_rows_with_its_own_words():
    found = overview(
        clusters=[
            {
                "metadata": {"name": "east"},
                "spec": {"cluster": {"source": "Existing"}},
                "status": {
                    **READY,
                    "nodes": 2,
                    "freeDevices": 15,
                    "replicas": 1,
                    "gpuPools": [{"name": "a", "nodes": 2}],
                },
            }
        ],
        deployments=[
            {
                "metadata": {"name": "qwen", "namespace": "ml"},
                "spec": {"replicas": 2},
                "status": {**STARTING, "replicas": 2, "readyReplicas": 1, "placement": {"summary": "2 on east"}},
            }
        ],
        replicas=[
            {
                "metadata": {"name": "qwen-1", "namespace": "ml"},
                "spec": {
                    "clusterName": "east",
                    "deployment": {"name": "qwen"},
                    "engines": [
                        {"name": "main", "members": [{"role": "Standalone", "nodePoolName": "a", "template": TEMPLATE}]}
                    ],
                },
            }
        ],
        services=[
            {
                "metadata": {"name": "chat", "namespace": "ml"},
                "spec": {"endpoints": [{"selector": {"matchLabels": {"a": "b"}}}]},
                "status": {**READY, "address": "http://x/ml/chat", "endpoints": {"matched": 2, "ready": 1}},
            }
        ],
    )
    ready = ObjectHealth("Ready", "")
    assert found.clusters == (ClusterRow("east", ready, 2, 15, 1, ("a",)),)
    assert found.deployments == (
        DeploymentRow("ml", "qwen", ObjectHealth("NotReady", "Starting: 1 of 2"), 2, 2, 1, "2 on east"),
    )
    assert found.replicas == (
        ReplicaRow("ml", "qwen-1", ObjectHealth("Unknown", "nothing was decided yet"), "qwen", "east"),
    )
    assert found.services == (ServiceRow("ml", "chat", ready, "http://x/ml/chat", 2, 1),)
