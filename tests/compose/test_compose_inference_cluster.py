import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Use


def compose(required: dict | None = None, source: str = "Existing", **scheduling):
    item = {
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": source},
            "nodePools": [{"name": "gpu", "className": "h200", "nodeCount": 2}],
            "scheduling": scheduling,
        },
    }
    kind = {
        "metadata": {"name": "h200"},
        "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu", "count": 8}]},
    }
    given = {"class-h200": (kind,), "replicas": (), **(required or {})}
    return inference_cluster.compose(ComposeRequest(decode(InferenceCluster, item), required=given))


@pytest.mark.parametrize(
    ("scheduling", "status"),
    [
        ({}, "True"),
        ({"defaultLabels": {"team": "{{ .Namespace }}"}}, "True"),
        ({"defaultLabels": {"team": "{{ .Team }}"}}, "False"),
        ({"type": "Kueue", "queue": "not a label"}, "False"),
    ],
)
def test_marks_that_no_pod_could_carry_are_refused_without_making_the_cluster_unready(scheduling, status):
    result = compose(**scheduling)
    assert (result.conditions[0].type, result.conditions[0].status.value) == ("Accepted", status)
    assert result.ready.reason != "Invalid"


@pytest.mark.parametrize("source", ["GKE", "EKS"])
def test_a_cluster_that_this_build_cannot_make_is_refused_and_gets_nothing(source):
    result = compose(source=source)
    told = f"spec.cluster.source: this build does not provision {source} clusters; use Existing"
    accepted = result.conditions[0]
    assert (accepted.status.value, accepted.reason, accepted.message) == ("False", "NotSupported", told)
    assert (result.ready.status.value, result.ready.message, result.desired) == ("False", told, {})


def test_classes_in_use_outlive_the_cluster():
    use = Use("modelplane.ai/v1alpha1", "InferenceClass", "h200", reason="a pool has nodes of this class")
    assert compose().uses == (use,)


def test_observed_capacity_is_published():
    node = {
        "metadata": {"name": "a", "labels": {"modelplane.ai/pool": "gpu"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{index}"} for index in range(8)]
    published = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": pool, "devices": devices}}
    queue = {"metadata": {"name": "serving"}, "spec": {"capability": {"nvidia.com/gpu": "6"}}}
    seen = {
        "observed-nodes": (node,),
        "observed-slices": (published,),
        "observed-claims": (),
        "observed-queues": (queue,),
    }
    status = compose(seen, type="Volcano").status
    assert (status.gpu_pools[0].nodes, status.gpu_pools[0].observed_nodes, status.free_devices) == (1, 1, 8)
    assert [(found.name, found.quota) for found in status.queues] == [("serving", 6)]
    assert compose(type="Volcano").status.gpu_pools[0].nodes == 2
