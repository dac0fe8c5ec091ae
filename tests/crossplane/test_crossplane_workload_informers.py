"""Workload clusters looked at directly: what they show comes back as observed capacity."""

import base64
import json

from prometheus_client import CollectorRegistry

from modelplane.compose.contract import Requirement
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.fleet_informers import CLUSTERS
from modelplane.crossplane.live import Live
from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from modelplane.kube import GroupVersionResource
from tests.support.kube_api import KubeApi, running, tell, until

API = "modelplane.ai/v1alpha1"
SECRETS = GroupVersionResource("", "v1", "secrets")
NODES = GroupVersionResource("", "v1", "nodes")
SLICES = GroupVersionResource("resource.k8s.io", "v1", "resourceslices")
CLAIMS = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims")
CLASS = {
    "apiVersion": API,
    "kind": "InferenceClass",
    "metadata": {"name": "h200"},
    "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}]},
}
CLUSTER = {
    "apiVersion": API,
    "kind": "InferenceCluster",
    "metadata": {"name": "east", "generation": 1},
    "spec": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east", "key": "kubeconfig"}}},
        "nodePools": [{"name": "pool", "className": "h200", "nodeCount": 4}],
    },
}


def kubeconfig(url):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def secret(url):
    text = base64.b64encode(json.dumps(kubeconfig(url)).encode()).decode()
    metadata = {
        "name": "east",
        "namespace": "modelplane-system",
        "annotations": {"modelplane.ai/allow-insecure": "true"},
    }
    return {"metadata": metadata, "data": {"kubeconfig": text}}


def node(name, ready="True"):
    return {
        "metadata": {"name": name, "labels": {"modelplane.ai/pool": "pool"}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def composed(live):
    return answer(FunctionCall(CLUSTER, required={"class-h200": (CLASS,)}), 0.0, live.cache)


def with_two_apis(story):
    async def both(control, client):
        async with KubeApi().serving() as workload:
            control.put(CLUSTERS, CLUSTER)
            control.put(SECRETS, secret(workload.url))
            live = Live(client, CollectorRegistry(), FunctionCaches(), pause_s=0.01, observe=True)
            async with running(live.run()):
                await until(lambda: live.informers.synced)
                await story(control, workload, live)

    tell(both)


def looked(live):
    return live.cache.find(Requirement("v1", "Node", cluster="east")) is not None


def test_what_a_cluster_shows_refines_what_was_declared_and_wakes_it():
    async def story(control, workload, live):
        assert composed(live).status["gpuPools"][0].get("observedNodes") is None
        await until(lambda: looked(live) and composed(live).status["gpuPools"][0].get("observedNodes") == 0)
        before = control.get(CLUSTERS, "east")["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION)
        workload.put(NODES, node("n1"))
        workload.put(NODES, node("n2", ready="False"))
        await until(lambda: composed(live).status["gpuPools"][0].get("observedNodes") == 1)
        await until(
            lambda: control.get(CLUSTERS, "east")["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION) != before
        )

    with_two_apis(story)


def test_what_cannot_be_looked_at_is_not_known_rather_than_gone():
    async def story(_control, workload, live):
        workload.put(NODES, node("n1"))
        await until(lambda: composed(live) and looked(live))
        workload.refusals["watch"] = 500
        workload.drop()
        await until(lambda: not looked(live))
        assert composed(live).status["gpuPools"][0].get("observedNodes") is None
        workload.refusals.clear()
        await until(lambda: looked(live))

    with_two_apis(story)


def test_a_secret_that_is_no_kubeconfig_harms_nobody():
    async def story(control, client):
        control.put(CLUSTERS, CLUSTER)
        broken = {"metadata": {"name": "east", "namespace": "modelplane-system"}, "data": {"kubeconfig": "bm8="}}
        control.put(SECRETS, broken)
        live = Live(client, CollectorRegistry(), FunctionCaches(), pause_s=0.01, observe=True)
        async with running(live.run()):
            await until(lambda: live.informers.synced)
            composed(live)
            await until(lambda: control.asked["get"])
            assert composed(live).status["nodes"] == 4

    tell(story)
