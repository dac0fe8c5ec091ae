"""What Modelplane really renders, on a simulated cluster: every object becomes ready by its own signal."""

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster, ModelReplica
from modelplane.compose import inference_cluster, model_replica
from modelplane.compose.contract import ComposeRequest, Remote
from modelplane.compose.readiness import is_ready
from modelplane.reconcile.store import ref_of
from modelplane.testing.cluster import gpu_pool, run_cluster

REPLICA = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "qwen-0", "namespace": "ml", "uid": "u1"},
    "spec": {
        "clusterName": "east",
        "index": 0,
        "engines": [
            {
                "name": "main",
                "copies": 2,
                "members": [
                    {
                        "role": "Standalone",
                        "nodes": 1,
                        "nodePoolName": "h200",
                        "deviceRequests": [
                            {
                                "name": "gpu",
                                "deviceClassName": "gpu.nvidia.com",
                                "count": 4,
                                "selectors": [
                                    {"cel": 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'}
                                ],
                            }
                        ],
                        "template": {
                            "spec": {
                                "containers": [{"name": "engine", "image": "vllm/vllm-openai:v1", "args": ["qwen"]}]
                            }
                        },
                    }
                ],
            }
        ],
    },
}
CLUSTER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "east"},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
        "nodePools": [{"name": "h200", "className": "h200-8x", "nodeCount": 1}],
    },
}


def rendered():
    read = {"cluster": ({**CLUSTER, "status": {"gateway": {"address": "127.0.0.1:1"}}},)}
    replica = model_replica.compose(ComposeRequest(decode(ModelReplica, REPLICA), required=read)).desired
    cluster = inference_cluster.compose(ComposeRequest(decode(InferenceCluster, CLUSTER))).desired
    targets = [desired.target for desired in (*replica.values(), *cluster.values())]
    return [target for target in targets if isinstance(target, Remote)]


def readiness(lab, targets):
    return {target.manifest["kind"]: is_ready(lab.get(target.manifest), target.ready_when) for target in targets}


def test_every_rendered_object_becomes_ready_and_goes():
    targets = rendered()

    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:1")
        for target in targets:
            lab.apply(target.manifest)
        early = readiness(lab, targets)
        await lab.settle()
        late = readiness(lab, targets)
        carried = len(lab.cluster.gateway_view().routes), len(lab.cluster.gateway_view().slices)
        for target in targets:
            if target.manifest["kind"] != "Namespace":
                lab.store.delete(ref_of(target.manifest))
        await lab.settle()
        return early, late, carried, lab.store.kinds()

    early, late, carried, kinds = run_cluster(main, pools=[gpu_pool()])
    waited = {"Deployment", "HTTPRoute", "Gateway"}
    assert {kind for kind, ready in early.items() if not ready} == waited
    assert set(late) >= waited | {"Namespace", "Service", "ResourceClaimTemplate"}
    assert all(late.values())
    assert carried == (1, 2)
    assert [kind for _, kind in kinds] == ["Namespace", "Node", "DeviceClass", "ResourceSlice"]
