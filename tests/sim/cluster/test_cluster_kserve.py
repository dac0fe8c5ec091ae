"""KServe's LLMInferenceService, as Modelplane renders it and as KServe breaks."""

import json

import pytest

from modelplane.api.objects import manifest, name_of, with_metadata
from modelplane.epp.config.config import load
from modelplane.epp.server.third_party import full_registry
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.kserve import group_size_of, picker_config
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, gpu_pool, run_cluster

API = "serving.kserve.io/v1alpha2"
POD = {
    "containers": [{"name": "main", "image": "vllm/vllm-openai:v1", "ports": [{"containerPort": 8000}]}],
    "resourceClaims": [{"name": "d", "resourceClaimTemplateName": "model"}],
    "tolerations": [{"operator": "Exists"}],
}


def llm(**spec):
    body = {"model": {"uri": "hf://a/b", "name": "b"}, "replicas": 1, "template": POD, **spec}
    return manifest(API, "LLMInferenceService", "demo", namespace=TENANT_NAMESPACE, spec=body)


def multi(**parallelism):
    return {"worker": POD, "parallelism": {"tensor": 8, **parallelism}}


def said(lab):
    return {entry["type"]: entry["status"] for entry in lab.get(llm())["status"]["conditions"]}


def children(lab):
    kinds = (("apps", "Deployment"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("", "Service"))
    pools = ("inference.networking.k8s.io", "InferencePool")
    return {name_of(item) for group, kind in (*kinds, pools) for item in lab.store.list(group, kind)}


def in_cluster(story, *items):
    async def main(lab):
        lab.apply(claim_template(gpus=4), *items)
        await lab.settle()
        return await story(lab)

    return run_cluster(main, pools=[gpu_pool(nodes=4)], settings=ClusterSettings())


def test_one_node_is_a_deployment():
    async def story(lab):
        return children(lab), said(lab), sorted(lab.engines.running.values())

    found, conditions, engines = in_cluster(story, llm(replicas=2))
    assert found == {"demo-kserve", "demo-kserve-workload-svc"}
    assert conditions == dict.fromkeys(("PresetsCombined", "MainWorkloadReady", "WorkloadsReady", "Ready"), "True")
    assert len(engines) == 2


def test_several_nodes_are_a_leader_worker_set():
    async def story(lab):
        slices = lab.store.list("discovery.k8s.io", "EndpointSlice")
        ready = [e["targetRef"]["name"] for item in slices for e in item["endpoints"] if "svc" in name_of(item)]
        return children(lab), said(lab), ready, len(lab.pods())

    found, conditions, ready, pods = in_cluster(story, llm(**multi(data=16, dataLocal=8)))
    assert "demo-kserve-mn" in found
    assert (conditions["WorkerWorkloadReady"], conditions["Ready"]) == ("True", "True")
    assert (ready, pods) == (["demo-kserve-mn-0"], 2)


def test_a_pipeline_needs_a_preset_that_nobody_ships():
    async def story(lab):
        before = said(lab), condition_of(lab.get(llm()), "Ready")["reason"]
        preset = "kserve-config-llm-worker-pipeline-parallel"
        lab.apply(manifest(API, "LLMInferenceServiceConfig", preset, namespace=TENANT_NAMESPACE, spec={}))
        await lab.settle()
        return before, said(lab)["Ready"]

    (before, reason), after = in_cluster(story, llm(**multi(pipeline=2)))
    assert (before["PresetsCombined"], reason, after) == ("False", "ConfigNotFound", "True")


def test_phases_and_a_pool():
    async def story(lab):
        pool = lab.store.list("inference.networking.k8s.io", "InferencePool")[0]
        return children(lab), said(lab), pool["spec"]["selector"]["matchLabels"], len(lab.engines.running)

    prefill = {"replicas": 1, "template": POD}
    found, conditions, selector, engines = in_cluster(story, llm(prefill=prefill, router={"scheduler": {}}))
    assert found == {
        "demo-kserve",
        "demo-kserve-prefill",
        "demo-kserve-router-scheduler",
        "demo-kserve-workload-svc",
        "demo-epp-service",
        "demo-inference-pool",
    }
    assert set(conditions.values()) == {"True"}
    assert {"PrefillWorkloadReady", "SchedulerWorkloadReady"} <= conditions.keys()
    assert selector == {"app.kubernetes.io/name": "demo", "kserve.io/component": "workload"}
    assert engines == 3  # the picker is one


def test_decode_pods_have_the_sidecar_and_the_picker_its_configuration():
    async def story(lab):
        pods = {name_of(pod).rpartition("-")[0].rpartition("-")[0]: pod["spec"] for pod in lab.pods()}
        return pods["demo-kserve"], pods["demo-kserve-prefill"], pods["demo-kserve-router-scheduler"]

    scheduler = {"template": {"containers": [{"name": "main"}], "priorityClassName": "high"}}
    prefill = {"replicas": 1, "template": POD}
    decode, prefiller, picker = in_cluster(story, llm(prefill=prefill, router={"scheduler": scheduler}))
    assert [container["name"] for container in decode["initContainers"]] == ["llm-d-routing-sidecar"]
    assert "initContainers" not in prefiller
    assert picker["priorityClassName"] == "high"
    args = picker["containers"][0]["args"]
    options = dict(zip(args[::2], args[1::2], strict=True))
    assert json.loads(options.pop("--config-text")) == picker_config(disaggregated=True)
    assert options == {
        "--pool-name": "demo-inference-pool",
        "--pool-namespace": TENANT_NAMESPACE,
        "--grpc-port": "9002",
    }


@pytest.mark.parametrize("disaggregated", [False, True])
def test_the_configuration_is_one_that_a_picker_reads(disaggregated):
    text = json.dumps(picker_config(disaggregated=disaggregated))
    profiles = load(text, "the picker of KServe", full_registry()).profiles
    assert [profile.name for profile in profiles] == (["prefill", "decode"] if disaggregated else ["default"])


def test_the_first_release_has_pools_of_the_first_api():
    async def story(lab):
        (pool,) = lab.store.list("inference.networking.x-k8s.io", "InferencePool")
        return pool["spec"], lab.store.list("inference.networking.k8s.io", "InferencePool")

    first = {**llm(router={"scheduler": {}}), "apiVersion": "serving.kserve.io/v1alpha1"}
    spec, others = in_cluster(story, first)
    assert others == ()
    assert spec == {
        "targetPortNumber": 8000,
        "selector": {"app.kubernetes.io/name": "demo", "kserve.io/component": "workload"},
        "extensionRef": {"name": "demo-epp-service", "portNumber": 9002, "failureMode": "FailOpen"},
    }


def test_what_changes_shape_is_replaced_and_what_is_stopped_goes():
    async def story(lab):
        lab.apply(with_spec(lab.get(llm()), **multi(data=2, dataLocal=1)))
        await lab.settle()
        shaped = children(lab)
        lab.apply(with_metadata(lab.get(llm()), annotations={"serving.kserve.io/stop": "true"}))
        await lab.settle()
        return shaped, children(lab), lab.pods(), said(lab)["Ready"]

    shaped, stopped, pods, ready = in_cluster(story, llm())
    assert "demo-kserve" not in shaped
    assert "demo-kserve-mn" in shaped
    assert (stopped, pods, ready) == (set(), (), "False")


def test_deleting_it_leaves_nothing_behind():
    async def story(lab):
        lab.store.delete(ref_of(llm()))
        await lab.settle()
        return children(lab), lab.pods(), lab.claims()

    assert in_cluster(story, llm(router={"scheduler": {}})) == (set(), (), ())


@pytest.mark.parametrize(
    ("parallelism", "size"),
    [({}, 1), ({"pipeline": 4}, 4), ({"data": 16, "dataLocal": 8}, 2), ({"data": 4, "dataLocal": 8}, 1)],
)
def test_the_size_of_a_group(parallelism, size):
    assert group_size_of({"parallelism": parallelism}) == size
