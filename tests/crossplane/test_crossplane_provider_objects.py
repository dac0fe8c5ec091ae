"""How targets become objects for Crossplane, and what is read back from them."""

import copy

import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelReplica
from modelplane.compose.contract import Desired, Helm, Local, Observed, ReadyWhen, Remote, keep
from modelplane.crossplane.provider_objects import Composite, read_back, to_provider_object

REPLICA = Composite("modelplane.ai/v1alpha1", "ModelReplica", "qwen-abc", "team-a", "u1")
CLUSTER = Composite("modelplane.ai/v1alpha1", "InferenceCluster", "east", "", "u2")
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "qwen", "namespace": "mp-team-a"},
    "spec": {"ports": [{"port": 8000}]},
}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "qwen"}, "spec": {"replicas": 1}}
AVAILABLE = {"availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]}


def seen(item, there=None, conditions=()):
    """The Object as Crossplane observes it after the provider looked."""
    metadata = {
        **item["metadata"],
        "uid": "9",
        "resourceVersion": "7",
        "labels": {"crossplane.io/composite": "qwen-abc"},
        "annotations": {**item["metadata"]["annotations"], "crossplane.io/composition-resource-name": "workload"},
    }
    status = {"conditions": list(conditions)}
    if there is not None:
        status["atProvider"] = {"manifest": there}
    return {**item, "metadata": metadata, "status": status}


def test_a_remote_object_goes_by_the_provider(problems):
    made = to_provider_object(REPLICA, "service", Desired(Remote("east", SERVICE)), {})
    assert made == {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": made["metadata"]["name"],
            "namespace": "team-a",
            "annotations": {"modelplane.ai/ready-when": "Created"},
        },
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
            "managementPolicies": ["*"],
            "readiness": {"policy": "SuccessfulCreate"},
            "watch": True,
            "forProvider": {"manifest": SERVICE},
        },
    }
    assert made["metadata"]["name"].startswith("qwen-abc-service-")
    assert problems(made) == []


def test_what_a_composite_of_the_whole_cluster_composes_goes_to_the_system_namespace():
    made = to_provider_object(CLUSTER, "gateway", Desired(Remote("east", SERVICE)), {})
    assert made["metadata"]["namespace"] == "modelplane-system"


def test_a_shared_object_is_never_deleted_by_one_of_those_who_share_it():
    made = to_provider_object(REPLICA, "namespace", Desired(Remote("east", SERVICE, shared=True)), {})
    assert made["spec"]["managementPolicies"] == ["Observe", "Create", "Update", "LateInitialize"]
    assert read_back(seen(made)).observed.target.shared


@pytest.mark.parametrize("when", ReadyWhen)
def test_every_signal_of_readiness_has_a_policy_that_the_provider_knows(when, problems):
    made = to_provider_object(REPLICA, "workload", Desired(Remote("east", DEPLOYMENT, when)), {})
    assert problems(made) == []
    readiness = made["spec"]["readiness"]
    assert ("celQuery" in readiness) == (readiness["policy"] == "DeriveFromCelQuery")
    assert read_back(seen(made)).observed.target.ready_when is when


def test_a_release_is_written_and_read_back(problems):
    chart = Helm("east", "lws", "oci://example/charts", "0.10.0", "lws-system", {"replicaCount": 1}, "mp-lws")
    made = to_provider_object(CLUSTER, "lws", Desired(chart), {})
    assert problems(made) == []
    composed = read_back({**made, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert composed.observed == Observed(chart, ready=True)
    said = {"type": "Synced", "status": "False", "message": "create failed: failed to install release: no such chart"}
    failed = read_back({**made, "status": {"conditions": [{"type": "Ready", "status": "False"}, said]}})
    assert failed.observed == Observed(chart, ready=False, refused="no such chart")


@pytest.mark.parametrize(
    ("there", "conditions", "ready"),
    [
        pytest.param(None, (), False, id="never looked at"),
        pytest.param(DEPLOYMENT, (), False, id="there, and not available"),
        pytest.param({**DEPLOYMENT, "status": AVAILABLE}, (), True, id="available"),
        pytest.param(
            {**DEPLOYMENT, "status": AVAILABLE},
            (
                {
                    "type": "Synced",
                    "status": "False",
                    "message": "observe failed: cannot get object: connection refused",
                },
            ),
            False,
            id="the cluster cannot be looked at any more",
        ),
        pytest.param(
            {**DEPLOYMENT, "status": AVAILABLE},
            (
                {
                    "type": "Synced",
                    "status": "False",
                    "message": "connect failed: cannot get referenced ClusterProviderConfig",
                },
            ),
            False,
            id="the credentials of the cluster are gone",
        ),
        pytest.param(
            {**DEPLOYMENT, "status": AVAILABLE},
            ({"type": "Synced", "status": "False", "message": "update failed: field is immutable"},),
            True,
            id="an update was refused, what runs goes on",
        ),
    ],
)
def test_readiness_is_what_the_cluster_shows(there, conditions, ready):
    made = to_provider_object(REPLICA, "workload", Desired(Remote("east", DEPLOYMENT, ReadyWhen.AVAILABLE)), {})
    composed = read_back(seen(made, there, conditions))
    assert composed.observed.ready is ready
    assert composed.observed.manifest == (there or DEPLOYMENT)
    assert composed.observed.target.cluster == "east"


def test_what_is_being_deleted_is_neither_ready_nor_as_it_was():
    """A cluster that is made again finds the Object of the one before, which takes its gateway along."""
    available = {**DEPLOYMENT, "status": AVAILABLE}
    made = to_provider_object(REPLICA, "workload", Desired(Remote("east", DEPLOYMENT, ReadyWhen.AVAILABLE)), {})
    kept = seen(made, available)
    leaving = {**kept, "metadata": {**kept["metadata"], "deletionTimestamp": "2026-11-18T04:56:08Z"}}
    told = [read_back(each).observed for each in (kept, leaving)]
    assert [(each.ready, each.manifest) for each in told] == [(True, available), (False, DEPLOYMENT)]


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("create failed: cannot create object: cannot create object: x is forbidden: no", "x is forbidden: no"),
        ("create failed: cannot apply object: denied the request: no queue", "denied the request: no queue"),
        ("update failed: field is immutable", "field is immutable"),
        ("observe failed: cannot get object: connection refused", ""),
        ("connect failed: cannot get referenced ClusterProviderConfig", ""),
        ("update failed: the object has been modified; please apply your changes to the latest version", ""),
        ('create failed: cannot apply object: namespaces "mp-team" not found', ""),
        ("create failed: unable to create new content in namespace x because it is being terminated", ""),
    ],
)
def test_what_the_cluster_refused_is_told_and_what_passes_by_itself_is_not(message, refused):
    made = to_provider_object(REPLICA, "workload", Desired(Remote("east", DEPLOYMENT, ReadyWhen.AVAILABLE)), {})
    condition = {"type": "Synced", "status": "False", "message": message}
    assert read_back(seen(made, None, (condition,))).observed.refused == refused
    assert read_back(seen(made, None, ({**condition, "status": "True"},))).observed.refused == ""


def test_what_is_kept_is_asked_for_as_it_was_and_not_as_it_was_found():
    desired = Desired(Remote("east", DEPLOYMENT, ReadyWhen.AVAILABLE), outlives=("route",))
    made = to_provider_object(REPLICA, "workload", desired, {})
    found = {**DEPLOYMENT, "metadata": {"name": "qwen", "managedFields": [{}]}, "status": AVAILABLE}
    composed = read_back(seen(made, found))
    assert composed.observed.outlives == ("route",)
    kept = keep(composed.observed)
    assert to_provider_object(REPLICA, "workload", kept, {"workload": composed}) == made


def test_a_local_object_is_kept_without_what_others_wrote_on_it():
    replica = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": "qwen-abc", "namespace": "team-a", "labels": {"modelplane.ai/cluster": "east"}},
        "spec": {"clusterName": "east"},
    }
    made = to_provider_object(REPLICA, "replica", Desired(Local(replica, ReadyWhen.READY)), {})
    observed = {
        **made,
        "metadata": {
            **made["metadata"],
            "uid": "5",
            "generation": 3,
            "ownerReferences": [{}],
            "labels": {"modelplane.ai/cluster": "east", "crossplane.io/composite": "qwen"},
        },
        "spec": {"clusterName": "east", "crossplane": {"compositionRef": {"name": "modelreplica"}}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    composed = read_back(observed)
    assert composed.observed.ready
    kept = Desired(composed.observed.target, ready=True)
    assert to_provider_object(REPLICA, "replica", kept, {"replica": composed}) == made


MEMBER = {
    "role": "Standalone",
    "nodePoolName": "p",
    "template": {"spec": {"containers": [{"name": "engine", "image": "i"}]}},
}


def test_a_replica_is_kept_without_the_defaults_of_the_api():
    """What is applied once and then not is taken away, and null is left where it was the only field of an object."""
    made = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": "qwen-abc", "namespace": "team-a", "annotations": {"modelplane.ai/ready-when": "Ready"}},
        "spec": {
            "clusterName": "east",
            "deployment": {"name": "qwen"},
            "serving": {},
            "engines": [{"name": "main", "type": "vLLM", "topology": {}, "members": [MEMBER]}],
        },
    }
    observed = copy.deepcopy(made)
    observed["metadata"]["annotations"]["modelplane.ai/facts"] = "563683a763af056e"
    observed["spec"] |= {"serving": {"mode": "Unified"}, "protected": False}
    observed["spec"]["engines"][0] |= {"topology": {"data": 1, "pipeline": 1, "tensor": 1}, "copies": 1}
    composed = read_back(observed)
    kept = to_provider_object(REPLICA, "replica", keep(composed.observed), {"replica": composed})
    assert kept["metadata"] == made["metadata"]
    assert (kept["spec"]["serving"], kept["spec"]["engines"][0]["topology"]) == ({}, {})
    assert kept["spec"] == encode(decode(ModelReplica, made))["spec"]


def test_names_of_objects_tell_composites_and_keys_apart():
    others = [REPLICA, CLUSTER, Composite("modelplane.ai/v1alpha1", "ModelReplica", "qwen-abc", "team-b", "u1")]
    names = {composite.name_for(key) for composite in others for key in ("a", "b")}
    assert len(names) == 6
    assert all(len(name) <= 63 for name in names)
