import json

import pytest

from modelplane.api.codec import decode
from modelplane.api.meta import ClusterName
from modelplane.api.models import BoundPod, InferenceCluster, ModelReplica
from modelplane.compose import inference_cluster
from modelplane.compose.contract import ComposeRequest, Desired, Observed, ReadyWhen, Remote, Requirement, Use
from modelplane.compose.placed_replica import placed_replica
from tests.compose import clouds


def compose(
    required: dict | None = None,
    status: dict | None = None,
    source: str = "Existing",
    observed=None,
    spec=None,
    annotations=None,
    now=0.0,
    **scheduling,
):
    item = {
        "metadata": {"name": "east", "annotations": annotations or {}},
        "status": status or {},
        "spec": {
            "cluster": {"source": source},
            "nodePools": [{"name": "gpu", "className": "h200", "nodeCount": 2}],
            "scheduling": scheduling,
            **(spec or {}),
        },
    }
    kind = {
        "metadata": {"name": "h200"},
        "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu", "count": 8}]},
    }
    given = {"class-h200": (kind,), "replicas": (), **(required or {})}
    resource = decode(InferenceCluster, item)
    return inference_cluster.compose(ComposeRequest(resource, observed or {}, required=given, now=now))


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


def test_a_stack_that_lacks_its_scheduler_is_refused_and_gets_nothing():
    result = compose(spec={"stack": "Dynamo"})
    told = "spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove"
    accepted = result.conditions[0]
    assert (accepted.status.value, accepted.reason, accepted.message) == ("False", "NotSupported", told)
    assert (result.ready.status.value, result.ready.message, result.desired) == ("False", told, {})


def test_classes_in_use_outlive_the_cluster():
    use = Use("modelplane.ai/v1alpha1", "InferenceClass", "h200", reason="a pool has nodes of this class")
    assert compose().uses == (use,)


def test_a_namespace_is_ready_as_soon_as_it_is_made():
    namespace = compose().desired["namespace"]
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "modelplane-system"}}
    assert namespace == Desired(Remote(ClusterName("east"), made, shared=True), ready=True)


NODE = {
    "metadata": {"name": "a", "labels": {"modelplane.ai/pool": "gpu"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
SLICE = {
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}"} for index in range(8)],
    }
}
SEEN = {"observed-nodes": (NODE,), "observed-slices": (SLICE,), "observed-claims": ()}


def test_a_cluster_of_which_nothing_is_observed_yet_says_so():
    ready = compose().ready
    words = "no object on the cluster is observed yet"
    assert (ready.status.value, ready.reason, ready.message) == ("Unknown", "WaitingForCluster", words)


def test_observed_capacity_is_published():
    queue = {"metadata": {"name": "serving"}, "spec": {"capability": {"nvidia.com/gpu": "6"}}}
    seen = {**SEEN, "observed-queues": (queue,)}
    status = compose(seen, type="Volcano").status
    assert (status.gpu_pools[0].nodes, status.gpu_pools[0].observed_nodes, status.free_devices) == (1, 1, 8)
    assert [(found.name, found.quota) for found in status.queues] == [("serving", 6)]
    assert compose(type="Volcano").status.gpu_pools[0].nodes == 2


@pytest.mark.parametrize(("answers", "expected"), [(True, (16, None)), (False, (0, 16))])
def test_devices_of_a_cluster_that_does_not_answer_are_not_free(answers, expected):
    gateway = Remote(ClusterName("east"), {"status": {"addresses": [{"value": "192.0.2.1"}]}})
    status = compose(observed={"gateway": Observed(gateway, ready=answers)}).status
    assert (status.free_devices, status.lost_devices) == expected
    assert sum(device.free for pool in status.gpu_pools for device in pool.devices) == expected[0]


AGENT = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "e"}, "connection": "Agent"}}}
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("connected", "heartbeat", "expected"),
    [
        (True, NOW, ("False", "ClusterLost", "the cluster does not answer")),
        (False, NOW, ("False", "AgentDisconnected", "the agent is not connected since 2027-01-15T08:00:00Z")),
        (
            True,
            NOW - 600,
            (
                "Unknown",
                "AgentUnknown",
                "the hub has not spoken of the agent since 2027-01-15T07:50:00Z; it was connected then",
            ),
        ),
    ],
)
def test_a_cluster_behind_a_broken_tunnel_says_so_and_keeps_everything(connected, heartbeat, expected):
    written = json.dumps({"connected": connected, "since": NOW, "heartbeat": heartbeat})
    first = compose(spec=AGENT)
    observed = {
        key: Observed(item.target, ready=item.target.ready_when is ReadyWhen.CREATED)
        for key, item in first.desired.items()
    }
    addressed = {**observed["gateway"].manifest, "status": {"addresses": [{"value": "192.0.2.1"}]}}
    observed["gateway"] = Observed(Remote(ClusterName("east"), addressed, ReadyWhen.ADDRESSED), ready=False)
    result = compose(spec=AGENT, observed=observed, annotations={"modelplane.ai/agent": written}, now=NOW)
    told = {each.type: (each.status, each.reason, each.message) for each in (*result.conditions, result.ready)}
    assert {told[kind] for kind in ("ClusterReady", "GatewayReady", "Ready")} == {expected}
    assert told["AgentConnected"][0] == {"ClusterLost": "True"}.get(expected[1], expected[0])
    assert result.desired.keys() >= first.desired.keys()
    assert (result.status.gateway.address, result.status.free_devices, result.status.lost_devices) == (
        "192.0.2.1",
        0,
        16,
    )


def test_a_cluster_is_looked_at_again_when_the_first_of_what_it_waits_for_may_be_there():
    written = json.dumps({"connected": True, "since": NOW, "heartbeat": NOW})
    waits = [
        compose(spec={**AGENT, **spec}, annotations={"modelplane.ai/agent": written}, now=NOW).requeue_after_s
        for spec in ({}, {"gateway": {"mutualTLS": {}}})
    ]
    assert waits == [181.0, 10.0]


def test_a_cluster_whose_agent_never_came_is_not_called_running():
    """Crossplane shows objects that it has made for the provider, before any was brought to the cluster."""
    first = compose(spec=AGENT)
    observed = {key: Observed(item.target, ready=False) for key, item in first.desired.items()}
    result = compose(spec=AGENT, observed=observed, now=NOW)
    assert (result.ready.status, result.ready.reason, result.ready.message) == (
        "Unknown",
        "AgentUnknown",
        "no agent has connected yet",
    )
    assert result.desired.keys() == first.desired.keys()
    assert (result.status.free_devices, result.status.lost_devices) == (16, None)


CLASS = {"metadata": {"name": "h200"}, "spec": {"devices": [{"name": "gpu", "driver": "d", "count": 8}]}}
PUBLISHED = {"name": "gpu", "className": "h200", "nodes": 2, "devices": [{"name": "gpu", "driver": "d", "count": 8}]}


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        pytest.param((), "ClassMissing", "InferenceClass h200 does not exist", id="absent"),
        pytest.param(({},), "ClassInvalid", "InferenceClass h200: ", id="empty"),
        pytest.param(({**CLASS, "spec": 7},), "ClassInvalid", "spec", id="no spec"),
        pytest.param(({**CLASS, "spec": {"devices": []}},), "ClassInvalid", "spec.devices", id="no devices"),
        pytest.param(
            (
                {
                    **CLASS,
                    "spec": {"devices": [{"name": "gpu", "driver": "d", "attributes": {"a": {"version": "x"}}}]},
                },
            ),
            "ClassInvalid",
            "device gpu",
            id="a device with a version that is none",
        ),
    ],
)
def test_a_class_that_is_missing_or_cannot_be_read_leaves_the_pools_as_published(found, reason, words):
    result = compose({"class-h200": found}, {"gpuPools": [PUBLISHED]})
    before = compose({"class-h200": (CLASS,)}, {"gpuPools": [PUBLISHED]})
    published = decode(
        InferenceCluster,
        {"metadata": {"name": "x"}, "spec": {"cluster": {"source": "Existing"}}, "status": {"gpuPools": [PUBLISHED]}},
    )
    assert (result.status.gpu_pools, result.status.free_devices) == (published.status.gpu_pools, 0)
    assert result.desired.keys() == before.desired.keys()
    condition = result.conditions[1]
    assert (condition.type, condition.status.value, condition.reason.value) == ("ClusterReady", "False", reason)
    assert words in condition.message
    assert condition.message.endswith("its pools keep their last status")


def held(pool, count, copies, nodes):
    """A replica whose pods claim devices of a pool."""
    pod = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}
    claimed = {"name": "gpu", "deviceClassName": "gpu", "count": count}
    member = {"role": "Standalone", "nodes": nodes, "nodePoolName": pool, "deviceRequests": [claimed], "template": pod}
    engine = {"name": "main", "copies": copies, "members": [member]}
    spec = {"clusterName": "east", "deployment": {"name": "chat"}, "engines": [engine]}
    return {"metadata": {"name": f"r-{pool}-{count}", "namespace": "team"}, "spec": spec}


def test_devices_of_replicas_are_allocated_and_the_rest_is_free():
    replicas = (held("gpu", 2, 2, 1), held("gpu", 1, 1, 3), held("other", 8, 1, 1), {"spec": 7})
    (pool,) = compose({"replicas": replicas}).status.gpu_pools
    assert [(device.count, device.allocated, device.free) for device in pool.devices] == [(8, 7, 9)]
    (full,) = compose({"replicas": (held("gpu", 8, 3, 1),)}).status.gpu_pools
    assert [(device.count, device.allocated, device.free) for device in full.devices] == [(8, 24, 0)]


def test_a_device_that_no_pod_claims_is_never_allocated():
    fabric = {"name": "fabric", "driver": "f", "claim": "Synthetic", "count": 1}
    (pool,) = compose({"class-h200": ({**CLASS, "spec": {"devices": [fabric]}},)}).status.gpu_pools
    assert [(device.count, device.allocated, device.free) for device in pool.devices] == [(1, 0, 2)]


def test_pods_of_replicas_are_looked_for_once_the_cluster_is_observed():
    broken = held("gpu", 1, 1, 1)
    broken["spec"]["engines"][0]["members"] = []
    observed = {"observed-nodes": (), "observed-slices": (), "observed-claims": ()}
    replicas = {"replicas": (held("gpu", 2, 2, 1), broken)}
    known = {"boundPods": [{"pool": "gpu", "node": "n1", "devices": 2, "replica": "r"}]}
    assert [pod.node for pod in compose(replicas, known).status.bound_pods] == ["n1"]
    assert compose({**replicas, **observed}, known).status.bound_pods == ()


def test_a_pod_of_a_replica_is_told_by_the_replicas_digest():
    replica = held("gpu", 2, 1, 1)
    results = [{"driver": "gpu.nvidia.com", "pool": "a", "device": f"gpu-{index}"} for index in range(2)]
    claim = {
        "metadata": {"labels": {"modelplane.ai/replica": replica["metadata"]["name"]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    status = compose({**SEEN, "observed-claims": (claim,), "replicas": (replica,)}).status
    digest = placed_replica(decode(ModelReplica, replica)).digest
    assert status.bound_pods == (BoundPod(pool="gpu", node="a", devices=2, replica=digest),)


SHARED = {"storage": {"sharedFilesystem": {"driver": "Filestore"}}}
GKE = {"cluster": {"source": "GKE", "gke": {"project": "p", "region": "europe-west4"}}}
OLDER = Observed(Remote(ClusterName("east"), {"kind": "StorageClass", "metadata": {"name": "older"}}), ready=True)


@pytest.mark.parametrize(
    ("spec", "observed", "expected"),
    [
        ({}, {}, None),
        (SHARED, {}, "modelplane-rwx"),
        (SHARED, {"storage-class": OLDER}, "older"),
        ({}, {"storage-class": OLDER}, None),
        (GKE, {"storage-class": OLDER}, "older"),
    ],
    ids=["none", "new", "it cannot be changed", "no longer declared", "its cloud does not say yet"],
)
def test_the_class_for_shared_volumes_is_made_once(spec, observed, expected):
    result = compose(spec=spec, observed=observed)
    found = result.desired.get("storage-class")
    assert (found and found.target.manifest["metadata"]["name"]) == expected
    assert result.status.storage_class_name == (expected and "modelplane-rwx")
    assert (found and found.ready) == (expected and bool(observed))


@pytest.mark.parametrize(
    ("seen", "reason"),
    [((), "Provisioning"), (("namespace",), "WaitingForCluster"), (("gateway",), "ClusterRunning")],
    ids=["nothing of it", "its namespace", "its gateway"],
)
def test_a_cluster_of_a_cloud_that_was_reached_is_not_called_unmade(seen, reason):
    addressed = Remote(ClusterName("east"), {"status": {"addresses": [{"value": "192.0.2.1"}]}})
    result = clouds.compose(clouds.make_cloud("GKE"), {key: Observed(addressed, ready=True) for key in seen})
    (condition,) = [each for each in result.conditions if each.type == "ClusterReady"]
    assert condition.reason == reason


def test_a_cluster_reads_its_classes_and_its_replicas():
    api, found = "modelplane.ai/v1alpha1", compose().requirements
    assert {key: item for key, item in found.items() if item.cluster is None} == {
        "class-h200": Requirement(api, "InferenceClass", name="h200"),
        "replicas": Requirement(api, "ModelReplica", labels={"modelplane.ai/cluster": "east"}),
        "telemetry-destinations": Requirement(api, "TelemetryDestination"),
    }


def test_the_faults_of_many_classes_are_as_long_as_the_api_allows():
    names = [f"class-{at}" for at in range(40)]
    pools = [{"name": name, "className": name, "nodeCount": 1} for name in names]
    condition = compose({f"class-{name}": ({},) for name in names}, spec={"nodePools": pools}).conditions[1]
    assert (condition.reason, len(condition.message)) == ("ClassInvalid", 1024)
