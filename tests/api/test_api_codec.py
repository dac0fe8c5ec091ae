import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.errors import InvalidObject
from modelplane.api.models import KINDS, InferenceClass, ModelDeployment

MANIFEST = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen", "namespace": "default", "unknownToUs": 1},
    "spec": {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "workers": {"template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}}},
    },
}


def test_defaults_of_the_schema_are_defaults_of_the_model():
    spec = decode(ModelDeployment, MANIFEST).spec
    assert (spec.replicas, spec.failover.policy, spec.failover.grace_period_seconds) == (1, "Replace", 300)
    assert spec.node_selector.devices[0].count == 1


def test_encoding_leaves_out_what_was_left_at_its_default():
    manifest = encode(decode(ModelDeployment, MANIFEST))
    assert manifest["spec"] == MANIFEST["spec"]
    assert manifest["metadata"] == {"name": "qwen", "namespace": "default"}


def test_fields_that_are_words_of_python_keep_their_name():
    device = {"name": "gpu", "driver": "d", "attributes": {"index": {"int": 3}, "ecc": {"bool": True}}}
    decoded = decode(InferenceClass, {"metadata": {"name": "x"}, "spec": {"devices": [device]}})
    attributes = decoded.spec.devices[0].attributes
    assert (attributes["index"].int_, attributes["ecc"].bool_) == (3, True)
    assert encode(decoded)["spec"]["devices"][0]["attributes"] == {"index": {"int": 3}, "ecc": {"bool": True}}


def test_a_wrong_type_names_its_field():
    wrong = {**MANIFEST, "spec": {**MANIFEST["spec"], "replicas": "two"}}
    with pytest.raises(InvalidObject, match=r"Expected `int`, got `str` - at `\$\.spec\.replicas`"):
        decode(ModelDeployment, wrong)


def test_every_kind_has_a_model():
    assert sorted(kind for _, kind in KINDS) == [
        "EKSCluster",
        "GKECluster",
        "InferenceClass",
        "InferenceCluster",
        "InferenceGateway",
        "MetricMapping",
        "ModelCache",
        "ModelDeployment",
        "ModelEndpoint",
        "ModelReplica",
        "ModelService",
        "ServingStack",
        "TelemetryDestination",
    ]
