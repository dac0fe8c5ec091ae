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
                    "lostDevices": 3,
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
    assert found.clusters == (ClusterRow("east", ready, 2, 15, 1, ("a",), lost_devices=3),)
    assert found.deployments == (
        DeploymentRow("ml", "qwen", ObjectHealth("NotReady", "Starting: 1 of 2"), 2, 2, 1, "2 on east"),
    )
    assert found.replicas == (
        ReplicaRow("ml", "qwen-1", ObjectHealth("Unknown", "nothing was decided yet"), "qwen", "east"),
    )
    assert found.services == (ServiceRow("ml", "chat", ready, "http://x/ml/chat", 2, 1),)


def test_a_cluster_that_is_drained_says_how_far_that_is():
    told = {"type": "Drained", "status": "False", "reason": "Draining", "message": "1 of 2 replicas are left"}
    ended = {**told, "reason": "NotDraining"}
    spec = {"cluster": {"source": "Existing"}}
    statuses = (
        {"conditions": [*READY["conditions"], told], "drain": {"replicas": 1}},
        {"conditions": [*READY["conditions"], ended]},
        {"conditions": [*STARTING["conditions"], told], "drain": {"replicas": 1}},
    )
    clusters = [{"metadata": {"name": "c"}, "spec": spec, "status": status} for status in statuses]
    rows = overview(clusters=clusters, deployments=[], replicas=[], services=[]).clusters
    assert [row.health.why for row in rows] == ["Draining: 1 of 2 replicas are left", "", "Starting: 1 of 2"]


def test_an_object_that_cannot_be_read_is_a_row_that_names_the_field_and_hides_no_other():
    def broken(name, **labels):
        return {"metadata": {"name": name, "namespace": "ml", "labels": labels}, "spec": 7}

    fine = {"metadata": {"name": "east"}, "spec": {"cluster": {"source": "Existing"}}}
    found = overview(
        clusters=[broken("odd"), fine],
        deployments=[broken("d")],
        replicas=[broken("r", **{"modelplane.ai/deployment": "d"})],
        services=[broken("s")],
        caches=[broken("c")],
    )
    health = ObjectHealth("Unknown", "it cannot be read: Expected `object`, got `int` - at `$.spec`")
    assert [(row.name, row.health.state) for row in found.clusters] == [("odd", "Unknown"), ("east", "Unknown")]
    assert found.clusters[0] == ClusterRow("odd", health, 0, 0, 0, ())
    assert found.deployments == (DeploymentRow("ml", "d", health, 0, 0, 0, ""),)
    assert found.replicas == (ReplicaRow("ml", "r", health, "d", ""),)
    assert found.services == (ServiceRow("ml", "s", health, "", 0, 0),)
    assert [(row.name, row.health) for row in found.caches] == [("c", health)]
