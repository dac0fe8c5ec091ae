"""What is seen of caches on workload clusters: how far loaders are, why they stopped, and which claims exist."""

import json

import pytest

from modelplane.compose.caching.inputs import claim_requirement, loaders_requirement
from modelplane.compose.context import remote_namespace
from modelplane.compose.images import ReleaseImages
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.fleet_informers import CACHES
from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from modelplane.kube import GroupVersionResource
from tests.compose.caches import NOW, make_cache, make_cluster
from tests.crossplane.test_crossplane_workload_informers import PODS, with_two_apis
from tests.support.waiting import until

VOLUME_CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
FUNCTION = FunctionCaches(images=ReleaseImages(loader="registry.example/modelplane-loader:1"))
CACHE = make_cache()
NAMESPACE, NAME = CACHE["metadata"]["namespace"], CACHE["metadata"]["name"]
THERE = remote_namespace(NAMESPACE)
SAID = {"phase": "Fetching", "bytes": 512, "total": 2048, "rate": 64, "eta": 24}
DONE = {"phase": "Complete", "bytes": 2048, "total": 2048, "key": "k", "revision": "abc", "message": "x" * 600}


def loader(phase, **state):
    entry = {"name": "loader", "image": "i", "ready": False, "restartCount": 0, "state": state}
    metadata = {"name": "load-1", "namespace": THERE, "labels": {"modelplane.ai/cache": NAME, "job-name": "load"}}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "containerStatuses": [entry]}}


def staging(phase="Hydrating"):
    return {**CACHE, "status": {"clusters": [{"name": "east", "phase": phase}]}}


def digest_of(control):
    found = control.get(CACHES, NAME, NAMESPACE)["metadata"]
    return found.get("annotations", {}).get(DIGEST_ANNOTATION)


def loaders(live):
    return live.cache.find(loaders_requirement(NAMESPACE, NAME, "east"))


def test_the_bytes_of_a_loader_that_runs_reach_its_cache_and_so_do_its_last_words():
    async def story(control, workload, live):
        control.put(CACHES, staging())
        workload.logs["load-1"] = f"started\n{json.dumps({**SAID, 'bytes': 1})}\n{json.dumps(SAID)}\n"
        workload.put(PODS, loader("Running", running={"startedAt": "2026-01-01T00:00:00Z"}))
        await until(lambda: loaders(live) and loaders(live)[0]["metadata"].get("annotations"))
        (pod,) = loaders(live)
        assert pod["metadata"]["annotations"] == {"modelplane.ai/progress": json.dumps(SAID)}
        assert pod["metadata"]["labels"] == {"modelplane.ai/cache": NAME}
        await until(lambda: digest_of(control))
        running = digest_of(control)

        workload.put(PODS, loader("Succeeded", terminated={"exitCode": 0, "message": f"noise\n{json.dumps(DONE)}"}))
        await until(lambda: digest_of(control) != running)
        (pod,) = loaders(live)
        assert pod["metadata"]["annotations"] == {"modelplane.ai/progress": json.dumps(DONE)}

    with_two_apis(story)


def test_a_cluster_that_may_not_read_logs_shows_everything_else(caplog):
    async def story(control, workload, live):
        control.put(CACHES, staging())
        workload.refusals["get"] = 403
        workload.put(PODS, loader("Running", running={"startedAt": "2026-01-01T00:00:00Z"}))
        await until(lambda: loaders(live) and workload.asked["get"] > 2)
        assert "annotations" not in loaders(live)[0]["metadata"]

    with_two_apis(story)
    assert [record.getMessage() for record in caplog.records].count("log of a loader not read") == 1


def claim(name, phase="Bound", namespace=THERE):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": {"phase": phase}}


def adopting():
    made = make_cache(source=None, storage={"type": "ExistingPVC", "existingPVC": {"claimName": "weights"}})
    made["spec"] = {name: value for name, value in made["spec"].items() if name in {"storage", "artifact"}}
    return {**made, "status": {"clusters": [{"name": "east", "phase": "Ready"}]}}


def adopted(live):
    """Phase and reason of the cache on its cluster."""
    found = live.cache.find(claim_requirement(NAMESPACE, "weights", "east"))
    required = {"clusters": (make_cluster("east"),), "replicas": (), "caches": ()}
    if found is not None:
        required["claim-east"] = found
    (entry,) = answer(FunctionCall(adopting(), {}, required), NOW, caches=FUNCTION).status["clusters"]
    return entry["phase"], entry["reason"]


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        pytest.param([claim("weights")], ("Ready", "Adopted"), id="bound"),
        pytest.param([claim("weights", "Pending")], ("Pending", "WaitingForVolume"), id="not bound"),
        pytest.param([claim("other")], ("Failed", "VolumeMissing"), id="another claim of the namespace is none of it"),
        pytest.param([claim("weights", namespace="batch")], ("Failed", "VolumeMissing"), id="another namespace"),
    ],
)
def test_an_existing_claim_is_that_of_its_name_and_wakes_its_cache(claims, shown):
    async def story(control, workload, live):
        control.put(CACHES, adopting())
        await until(lambda: live.cache.find(claim_requirement(NAMESPACE, "weights", "east")) == ())
        await until(lambda: live._requeuer._written)
        before, on_cluster = digest_of(control), live.cache._workloads.digest("east")
        for each in claims:
            workload.put(VOLUME_CLAIMS, each)
        await until(lambda: adopted(live) == shown)
        if shown[0] != "Failed":
            await until(lambda: digest_of(control) != before)
        assert live.cache._workloads.digest("east") == on_cluster

    with_two_apis(story)
