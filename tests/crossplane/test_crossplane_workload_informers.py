"""Workload clusters looked at directly: what they show comes back as observed capacity."""

import asyncio
import base64
import json
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import Requirement
from modelplane.compose.replica_inputs import pods_requirement
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.fleet_informers import CLUSTERS, REPLICAS
from modelplane.crossplane.live import Live
from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from modelplane.crossplane.workload_informers import WorkloadInformers
from modelplane.kube import ChangeKind, GroupVersionResource, Query
from modelplane.kube.informer import NamespacedName
from tests.support.kube_api import KubeApi, running, tell
from tests.support.waiting import until

API = "modelplane.ai/v1alpha1"
SECRETS = GroupVersionResource("", "v1", "secrets")
NODES = GroupVersionResource("", "v1", "nodes")
PODS = GroupVersionResource("", "v1", "pods")
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


def test_the_domains_of_a_fabric_are_seen_by_the_label_that_the_cluster_names():
    fabric = {"domain": {"topologyKey": "example.com/rack", "nodeCount": 2}}
    pool = {**CLUSTER["spec"]["nodePools"][0], "fabric": fabric}
    racks = {**CLUSTER, "spec": {**CLUSTER["spec"], "nodePools": [pool]}}

    def domain(live):
        result = answer(FunctionCall(racks, required={"class-h200": (CLASS,)}), 0.0, live.cache)
        return result.status["gpuPools"][0]["domain"]

    async def story(_control, workload, live):
        domain(live)
        for number in range(3):
            made = node(f"n{number}")
            made["metadata"]["labels"]["example.com/rack"] = f"r{number // 2}"
            workload.put(NODES, made)
        await until(lambda: domain(live).get("complete") == 1)
        assert domain(live) == {"topologyKey": "example.com/rack", "nodeCount": 2, "complete": 1}

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


class Deaf:
    """Hears of changes and does nothing."""

    def cluster_changed(self, cluster): ...
    def replicas_changed(self, cluster, replicas): ...
    def caches_changed(self, cluster, caches): ...


@pytest.mark.slow
def test_a_kubeconfig_that_was_rotated_is_read_again_once_the_old_one_fails():
    async def story(control, client):
        async with KubeApi().serving() as old, KubeApi().serving() as new:
            control.put(SECRETS, secret(old.url))
            old.put(NODES, node("before"))
            new.put(NODES, node("after"))
            informers = WorkloadInformers(client, Deaf(), retry_s=0.02)
            informers.on_event(ChangeKind.ADDED, CLUSTER)
            names = partial(node_names, informers)
            await until(lambda: names() == ["before"])
            control.put(SECRETS, secret(new.url))
            await asyncio.sleep(0.1)
            assert names() == ["before"]
            old.refusals["watch"] = 401
            old.drop()
            await until(lambda: names() == ["after"])
            await informers.close()

    tell(story)


def node_names(informers):
    found = informers.find(Requirement("v1", "Node", cluster="east"))
    return [item["metadata"]["name"] for item in found or ()]


TENANT = remote_namespace("team")
REPLICA = {
    "apiVersion": API,
    "kind": "ModelReplica",
    "metadata": {"name": "chat-1", "namespace": "team", "uid": "u", "generation": 1},
    "spec": {
        "clusterName": "east",
        "index": 0,
        "deployment": {"name": "chat"},
        "engines": [
            {
                "name": "main",
                "type": "vLLM",
                "members": [
                    {
                        "role": "Standalone",
                        "nodePoolName": "pool",
                        "template": {
                            "spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}
                        },
                    }
                ],
            }
        ],
    },
}


def pod(name, state, *, restarts=0, last=None, replica="chat-1", namespace=TENANT):
    entry = {"name": "engine", "image": "i", "ready": False, "restartCount": restarts, "state": state}
    if last is not None:
        entry["lastState"] = {"terminated": last}
    labels = {"modelplane.ai/replica": replica, "modelplane.ai/engine": "main", "team": "x"}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": [{"name": "engine", "env": [{"name": "TOKEN", "value": "not to be kept"}]}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [entry],
        },
    }


def replica_found(live):
    return live.cache.find(pods_requirement("team", "chat-1", "east"))


def digest_of(control):
    return control.get(REPLICAS, "chat-1", "team")["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION)


def wanted_digest(live):
    """What the replica is to carry by now; None: it is not known yet."""
    return live._dependents.digest((REPLICAS, NamespacedName("team", "chat-1")))


def test_pods_of_a_replica_wake_it_by_their_cause_and_not_by_each_change():
    async def story(control, workload, live):
        control.put(REPLICAS, REPLICA)
        await until(lambda: replica_found(live) == () and wanted_digest(live) is not None)
        workload.put(PODS, pod("a", {"waiting": {"reason": "ErrImagePull", "message": "i: not found"}}))
        workload.put(PODS, pod("b", {"waiting": {"reason": "ContainerCreating"}}, replica="other"))
        workload.put(PODS, pod("c", {"waiting": {"reason": "ContainerCreating"}}, namespace="another"))
        await until(lambda: len(replica_found(live) or ()) == 1 and digest_of(control) == wanted_digest(live))
        (kept,) = replica_found(live)
        assert kept["metadata"]["labels"] == {"modelplane.ai/replica": "chat-1", "modelplane.ai/engine": "main"}
        assert kept["spec"] == {}
        first, cluster = digest_of(control), live.cache._workloads.digest("east")

        crash = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
        workload.put(PODS, pod("a", crash, restarts=5, last={"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}))
        await until(lambda: digest_of(control) not in (None, first) and digest_of(control) == wanted_digest(live))
        second = digest_of(control)
        later = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}
        workload.put(PODS, pod("a", later, restarts=6, last={"exitCode": 1, "finishedAt": "2026-01-01T00:01:00Z"}))
        workload.put(PODS, pod("b", crash, replica="other"))
        await until(lambda: pods_kept(live, "other", "CrashLoopBackOff"))
        await asyncio.sleep(0.1)
        assert digest_of(control) == second
        assert live.cache._workloads.digest("east") == cluster

    with_two_apis(story)


def pods_kept(live, replica, word):
    return word in str(live.cache.find(pods_requirement("team", replica, "east")))


def test_a_kind_that_is_added_does_not_blind_the_others():
    async def story(_control, workload, live):
        workload.put(NODES, node("n1"))
        await until(lambda: looked(live))
        replica_found(live)
        for _ in range(20):
            assert looked(live)
            await asyncio.sleep(0.005)
        await until(lambda: replica_found(live) == ())

    with_two_apis(story)


def test_a_cluster_that_goes_leaves_no_task_behind():
    """One that waits for ever is named in an error when it is collected."""

    async def story(control, _workload, live):
        composed(live)
        await until(lambda: looked(live))
        control.delete(CLUSTERS, "east")
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Event.wait"])

    with_two_apis(story)


WORKLOADS = GroupVersionResource("kueue.x-k8s.io", "v1beta2", "workloads")


def workload(message, namespace=TENANT):
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    metadata = {"name": "pod-a", "namespace": namespace, "uid": f"uid-{namespace}", "ownerReferences": [{"name": "a"}]}
    return {"metadata": metadata, "spec": {"podSets": []}, "status": {"conditions": [reserved]}}


def composed_replica(live):
    replica = {**REPLICA, "status": {}}
    observed = answer(FunctionCall(replica), 0.0, live.cache).resources["workload-main-deployment"].manifest
    seen = {**observed, "status": {"atProvider": {"manifest": observed["spec"]["forProvider"]["manifest"]}}}
    return answer(FunctionCall(replica, {"workload-main-deployment": seen}), 0.0, live.cache).status.get("reason")


def test_a_queue_that_admits_nothing_is_the_cause_of_pods_behind_its_gate():
    async def story(control, workload_api, live):
        scheduling = {"scheduling": {"type": "Kueue", "queue": "serving"}}
        ready = {"gateway": {"address": "192.0.2.1"}}
        control.put(CLUSTERS, {**CLUSTER, "spec": {**CLUSTER["spec"], **scheduling}, "status": ready})
        control.put(REPLICAS, REPLICA)
        gated = pod("a", {})
        gated["spec"] = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
        workload_api.put(PODS, gated)
        await until(lambda: composed_replica(live) == "SchedulingGated")
        workload_api.put(WORKLOADS, workload("LocalQueue serving doesn't exist"))
        workload_api.put(WORKLOADS, workload("no quota", "batch"))
        await until(lambda: composed_replica(live) == "QueueMissing")
        await until(lambda: digest_of(control))
        before = digest_of(control)
        workload_api.put(WORKLOADS, workload("couldn't assign flavors: insufficient unused quota for gpu"))
        await until(lambda: composed_replica(live) == "QuotaExceeded" and digest_of(control) != before)
        assert len(live.cache._workloads._watched["east"].informers[Query(WORKLOADS)].snapshot) == 1

    with_two_apis(story)
