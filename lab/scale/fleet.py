"""A fleet of any size: clusters that look alike, and for each of them a deployment of ten replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.e2e.world import OURS
from modelplane.api.labels import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.client import Manifest

REPLICAS_EACH = 10
TEAMS = 20
CLASS = "h200-8x"
SECRET = "fleet-kubeconfig"  # noqa: S105  # the name of one
_NODES = 8
_GPUS_EACH = 2


def platform() -> Iterator[Manifest]:
    """What is there before any cluster."""
    device = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
    yield {"apiVersion": OURS, "kind": "InferenceClass", "metadata": {"name": CLASS}, "spec": {"devices": [device]}}
    metadata = {"name": SECRET, "namespace": SYSTEM_NAMESPACE}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"kubeconfig": "played"}}
    for team in range(TEAMS):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}


def cluster(number: int) -> Manifest:
    return {
        "apiVersion": OURS,
        "kind": "InferenceCluster",
        "metadata": {"name": f"cluster-{number:04d}", "labels": {"region": f"region-{number % 5}"}},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": SECRET}}},
            "nodePools": [{"name": "h200", "className": CLASS, "nodeCount": _NODES}],
        },
    }


def deployment(number: int) -> Manifest:
    selectors = [{"cel": 'device.driver == "gpu.nvidia.com"'}]
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.27.1", "args": ["Qwen/Qwen3-8B"]}
    return {
        "apiVersion": OURS,
        "kind": "ModelDeployment",
        "metadata": {"name": f"model-{number:04d}", "namespace": f"team-{number % TEAMS}"},
        "spec": {
            "replicas": REPLICAS_EACH,
            "nodeSelector": {"devices": [{"name": "gpu", "count": _GPUS_EACH, "selectors": selectors}]},
            "workers": {"template": {"spec": {"containers": [container]}}},
        },
    }
