import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose import capacity
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.kubernetes_versions import image_volume_fault, minor_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.36.0", (1, 36)),
        ("1.35", (1, 35)),
        ("v1.34.2-gke.1269000", (1, 34)),
        ("v1.33+", (1, 33)),
        ("v2.0.0", (2, 0)),
        ("v1.x", None),
        ("v1.36rc", None),
        ("", None),
    ],
)
def test_major_and_minor(text, expected):
    assert minor_version(text) == expected


@pytest.mark.parametrize(("version", "refused"), [("v1.36.0", False), ("v1.35.9", True), (None, False), ("?", False)])
def test_image_volumes_came_with_a_version(version, refused):
    assert (image_volume_fault(version) is not None) is refused


def node(version):
    return {"metadata": {"name": version}, "status": {"nodeInfo": {"kubeletVersion": version}}}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (None, "v1.30.0"),
        ((), None),
        ((node("v1.36.1"), node("v1.9.4"), node("v1.10.0")), "v1.9.4"),
        ((node(""), node("unknown")), None),
    ],
)
def test_the_version_of_a_cluster_is_that_of_its_oldest_node(nodes, expected):
    spec = {"cluster": {"source": "Existing"}, "nodePools": []}
    cluster = {"metadata": {"name": "east"}, "spec": spec, "status": {"kubernetesVersion": "v1.30.0"}}
    required = {} if nodes is None else {"observed-nodes": nodes}
    request = ComposeRequest(decode(InferenceCluster, cluster), {}, required)
    assert capacity.kubernetes_version(request) == expected
