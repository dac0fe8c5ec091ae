import pytest

from modelplane.api.cluster_storage import declared_class
from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster

RWX = {"storageClassName": "rwx"}
SECRET = {"secretRef": {"name": "k"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"cluster": {"source": "Existing", "existing": SECRET}}, None),
        ({"cluster": {"source": "Existing", "existing": {**SECRET, "cache": {}}}}, None),
        (
            {"cluster": {"source": "Existing", "existing": {**SECRET, "cache": RWX}}},
            "rwx",
        ),
        ({"cluster": {"source": "GKE", "gke": {"region": "r", "cache": RWX}}}, "rwx"),
        ({"cluster": {"source": "EKS", "eks": {"region": "r", "cache": RWX}}}, "rwx"),
        ({"cluster": {"source": "AKS", "aks": {"location": "r", "cache": RWX}}}, "rwx"),
        (
            {
                "cluster": {"source": "GKE", "gke": {"region": "r", "cache": {"storageClassName": "old"}}},
                "storage": {"storageClassName": "new"},
            },
            "new",
        ),
    ],
)
def test_the_class_is_found_in_either_spelling_and_the_newer_wins(spec, expected):
    item = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceCluster", "metadata": {"name": "a"}, "spec": spec}
    assert declared_class(decode(InferenceCluster, item)) == expected
