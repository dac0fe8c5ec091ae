"""Copies on Crossplane: two Objects, and no value in either."""

import json
from dataclasses import replace

import pytest

from modelplane.compose.contract import CopiedFrom, Desired, Observed, Remote
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.copies import copy_objects, with_filled
from modelplane.crossplane.provider_objects import Composite, to_provider_object
from tests.support import settled

CANARY = "Y2FuYXJ5"
REPLICA = Composite("modelplane.ai/v1alpha1", "ModelReplica", "qwen-abc", "team-a", "u1")
COPY = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "hf-token-qwen-abc-1", "namespace": "mp-team-a"},
    "type": "Opaque",
}
SOURCE = CopiedFrom("v1", "Secret", "hf-token", "team-a", ("data",), "7")
TARGET = Remote("east", COPY, copied_from=SOURCE)


def test_one_object_creates_the_copy_and_another_fills_it(problems):
    desired = {"secret-hf-token": Desired(TARGET), "service": Desired(Remote("east", COPY))}
    creates = to_provider_object(REPLICA, "secret-hf-token", desired["secret-hf-token"], {})
    assert creates["spec"] == {
        "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
        "managementPolicies": ["*"],
        "readiness": {"policy": "SuccessfulCreate"},
        "watch": False,
        "forProvider": {"manifest": COPY},
    }
    fills = copy_objects(REPLICA, desired)
    assert fills == {
        "copy-secret-hf-token": {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "Object",
            "metadata": {
                "name": REPLICA.name_for("copy-secret-hf-token"),
                "namespace": "team-a",
                "annotations": {"modelplane.ai/source-version": "7"},
                "finalizers": ["finalizer.managedresource.crossplane.io"],
            },
            "spec": {
                "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
                "managementPolicies": ["Observe", "Update"],
                "readiness": {"policy": "SuccessfulCreate"},
                "references": [
                    {
                        "patchesFrom": {
                            "apiVersion": "v1",
                            "kind": "Secret",
                            "name": "hf-token",
                            "namespace": "team-a",
                            "fieldPath": "data",
                        }
                    }
                ],
                "forProvider": {"manifest": COPY},
            },
        }
    }
    assert problems(creates) == []
    assert problems(fills["copy-secret-hf-token"]) == []


def test_a_copy_that_is_kept_as_observed_is_not_filled_again():
    assert copy_objects(REPLICA, {"secret-hf-token": Desired(replace(TARGET, copied_from=None))}) == {}


@pytest.mark.parametrize(
    ("copies", "ready"),
    [
        pytest.param({}, True, id="no copy"),
        pytest.param({"copy-a": {}}, False, id="not filled yet"),
        pytest.param({"copy-a": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}}, True, id="filled"),
        pytest.param({"copy-b": {}}, True, id="another is not filled"),
    ],
)
def test_a_copy_is_ready_when_it_is_filled(copies, ready):
    assert with_filled({"a": Observed(TARGET, ready=True)}, copies) == {"a": Observed(TARGET, ready)}
    assert with_filled({"a": Observed(TARGET, ready=False)}, copies) == {"a": Observed(TARGET, ready=False)}


CLUSTER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "east"},
    "spec": {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}},
    "status": {"gateway": {"address": "192.0.2.1"}},
}
TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "engine",
                "image": "vllm/vllm-openai:v0.27.1",
                "args": ["meta-llama/Llama-3.1-8B-Instruct"],
                "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "HF_TOKEN"}}}],
            }
        ]
    }
}
COMPOSITE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "llama-abc", "namespace": "team-a", "uid": "r1", "generation": 1},
    "spec": {
        "clusterName": "east",
        "index": 0,
        "engines": [
            {"name": "main", "members": [{"role": "Standalone", "nodePoolName": "h200", "template": TEMPLATE}]}
        ],
    },
}


def secret(version="7", **data):
    metadata = {
        "name": "hf-token",
        "namespace": "team-a",
        "resourceVersion": version,
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data, "type": "Opaque"}


def call(*found, composed=None):
    required = {"cluster": (CLUSTER,), "secret-hf-token": found}
    return answer(FunctionCall(COMPOSITE, composed or {}, required), now=0.0)


def reason(found):
    return next(each.reason for each in found.conditions if each.type == "SecretsReady")


def test_a_whole_call_has_references_and_no_value():
    found = call(secret(HF_TOKEN=CANARY))
    assert {"secret-hf-token", "copy-secret-hf-token", "workload-main-deployment"} <= found.resources.keys()
    assert CANARY not in repr(found)
    changed = call(secret("8", HF_TOKEN=CANARY))
    fills = changed.resources["copy-secret-hf-token"].manifest
    assert fills["metadata"]["annotations"] == {"modelplane.ai/source-version": "8"}


def test_a_secret_that_is_lost_takes_nothing_with_it():
    composed = {
        key: {**item.manifest, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for key, item in call(secret(HF_TOKEN=CANARY)).resources.items()
    }
    lost = call(composed=composed)
    kept = {key for key in composed if not key.startswith("copy-")}
    assert kept <= lost.resources.keys()
    assert lost.resources["secret-hf-token"].manifest["spec"] == composed["secret-hf-token"]["spec"]
    assert reason(lost) == "SecretMissing"
    assert reason(call(secret(HF_TOKEN=CANARY), composed=composed)) == "SecretsCopying"


def test_a_certificate_is_created_with_its_keys_and_updated_only_by_what_fills_it():
    """An update by the Object that created it would put its empty keys in the place of the values."""
    made = settled.cluster_gateway().resources
    holder, filler = made["cluster/certificate-front"], made["copy-cluster/certificate-front"]
    assert holder["spec"]["managementPolicies"] == ["Observe", "Create", "Delete"]
    assert holder["spec"]["forProvider"]["manifest"]["data"] == {"tls.crt": "", "tls.key": ""}
    assert filler["spec"]["managementPolicies"] == ["Observe", "Update"]
    (reference,) = filler["spec"]["references"]
    assert reference["patchesFrom"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": "front",
        "namespace": "modelplane-system",
        "fieldPath": "data",
    }
    (keys,) = [item for key, item in made.items() if key.startswith("cluster/keys-")]
    assert keys["spec"]["managementPolicies"] == ["*"]


def test_keys_of_callers_are_copied_from_the_secret_that_only_we_write():
    made = settled.cluster_gateway().resources
    (filler,) = [item for key, item in made.items() if key.startswith("copy-cluster/keys-")]
    (reference,) = filler["spec"]["references"]
    assert made["caller-keys"]["kind"] == "Secret"
    assert reference["patchesFrom"]["name"] == made["caller-keys"]["metadata"]["name"]


def test_the_secret_that_a_policy_names_outlives_the_secret_that_a_user_deletes():
    """Crossplane deletes what is not desired any more before it applies the rest."""
    state = settled.keyed_gateway()
    first = answer(state.call(), now=0.0)
    name = first.resources["caller-keys"].manifest["metadata"]["name"]
    (alone,) = [item for item in state.required["secrets"] if item["metadata"]["name"] == "a"]
    required = {**state.required, "secrets": (alone,)}
    asked = answer(FunctionCall(state.composite, state.composed, required), now=0.0)
    assert asked.requirements["secret-b"].name == "b"
    found = answer(FunctionCall(state.composite, state.composed, {**required, "secret-b": ()}), now=0.0)
    policy = found.resources["callers"].manifest["spec"]["apiKeyAuth"]
    assert (policy["credentialRefs"], found.resources["caller-keys"].manifest["data"]) == (
        [{"name": name}],
        {"ada": "MQ=="},
    )


def test_a_gateway_on_a_cluster_is_written_there_and_keeps_the_cluster_from_deletion():
    made = settled.cluster_gateway().resources
    objects = {key: item for key, item in made.items() if key.startswith(("cluster/", "copy-"))}
    assert {item["kind"] for item in objects.values()} == {"Object"}
    assert {item["metadata"]["namespace"] for item in objects.values()} == {"modelplane-system"}
    assert [item["spec"]["providerConfigRef"] for item in objects.values()] == [
        {"kind": "ClusterProviderConfig", "name": "east"}
    ] * len(objects)
    (usage,) = [item for key, item in made.items() if key.startswith("usage-")]
    assert usage == {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "ClusterUsage",
        "metadata": {"name": usage["metadata"]["name"]},
        "spec": {
            "of": {"apiVersion": settled.API, "kind": "InferenceCluster", "resourceRef": {"name": "east"}},
            "reason": "InferenceGateway eu: a gateway runs on the cluster",
            "replayDeletion": True,
        },
    }


def test_no_value_of_a_secret_is_in_what_a_gateway_or_a_service_composes_beside_secrets():
    for state in (settled.cluster_gateway(), settled.service_at_cluster("ab", "credential", beside=True)):
        text = json.dumps({key: item for key, item in state.resources.items() if item["kind"] != "Secret"})
        assert [value for value in ("MQ==", "aw==", "eA==") if f'"{value}"' in text] == []
