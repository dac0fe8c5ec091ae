"""What a deployment makes of clusters that are gone or cannot be read: nothing that serves is given up."""

import copy

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment
from modelplane.compose import model_deployment
from modelplane.compose.contract import ComposeRequest, Local, Observed, ReadyWhen

POD = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
GPU = {"name": "gpu", "driver": "d", "deviceClassName": "c", "count": 8}
WHEN = "2026-01-01T00:00:00Z"


def cluster(name):
    return {
        "metadata": {"name": name},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
            "nodePools": [{"name": "gpus", "className": "h200", "nodeCount": 2}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [{"name": "gpus", "nodes": 2, "devices": [GPU]}],
        },
    }


def deployment(replicas):
    devices = [{"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "d"'}]}]
    return decode(
        ModelDeployment,
        {
            "metadata": {"name": "chat", "namespace": "team", "uid": "u"},
            "spec": {"replicas": replicas, "nodeSelector": {"devices": devices}, "workers": {"template": POD}},
        },
    )


def compose(replicas, observed, clusters):
    stored = tuple(found.target.manifest for key, found in observed.items() if key.startswith("replica-"))
    required = {"clusters": tuple(clusters), "replicas": stored, "caches": ()}
    return model_deployment.compose(ComposeRequest(deployment(replicas), observed=observed, required=required))


def served(made):
    """Everything that was wanted, as it is once it serves."""
    found = {}
    for key, wanted in made.desired.items():
        item = copy.deepcopy(wanted.target.manifest)
        item["metadata"]["creationTimestamp"] = WHEN
        held = [{"type": kind, "status": "True", "reason": "X"} for kind in ("Ready", "WorkloadReady", "RouteReady")]
        item["status"] = {"address": "http://192.0.2.1", "conditions": held}
        found[key] = Observed(Local(item, ReadyWhen.READY), ready=True)
    return found


def settled():
    observed = served(compose(2, {}, [cluster("a"), cluster("b")]))
    return served(compose(2, observed, [cluster("a"), cluster("b")]))


def test_an_empty_list_of_clusters_deletes_nothing_and_says_so():
    observed = settled()
    made = compose(2, observed, [])
    assert made.desired.keys() == observed.keys()
    assert (made.conditions[0].status, made.conditions[0].reason) == ("Unknown", "Unresolved")
    assert made.conditions[0].message == "the fleet has 0 clusters; 2 of 2 replicas stay placed where they are"


def test_scaling_down_works_without_clusters():
    assert compose(0, settled(), []).desired == {}
    assert compose(1, settled(), []).desired.keys() == {"replica-a-0", "endpoint-a-0"}


def test_a_cluster_that_is_gone_keeps_its_replica_until_the_successor_serves():
    made = compose(2, settled(), [cluster("b")])
    assert {"replica-a-0", "endpoint-a-0", "replica-b-0", "replica-b-1"} <= made.desired.keys()
    after = compose(2, served(made), [cluster("b")])
    assert {key for key in after.desired if key.startswith("replica-")} == {"replica-b-0", "replica-b-1"}


def test_a_cluster_that_cannot_be_read_keeps_its_replicas_and_stops_nobody():
    broken = cluster("a")
    broken["status"]["gpuPools"][0]["nodes"] = "two"
    made = compose(3, settled(), [broken, cluster("b")])
    assert {key for key in made.desired if key.startswith("replica-")} == {"replica-a-0", "replica-b-0", "replica-b-1"}
    told = {found.cluster: found.reason for found in made.status.placement.candidates if found.filter_}
    assert told["a"].startswith("the cluster cannot be read: ")
