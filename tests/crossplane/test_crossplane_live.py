"""The fleet kept by watching: what is known, what counts before it is seen, and who is woken."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from modelplane.compose.contract import Requirement
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.fleet_informers import CACHES, CLUSTERS, DEPLOYMENTS, REPLICAS
from modelplane.crossplane.live import Live
from modelplane.crossplane.packaging import DIGEST_ANNOTATION
from tests.support.kube_api import running, tell
from tests.support.waiting import until

pytestmark = pytest.mark.slow
API = "modelplane.ai/v1alpha1"
GPU = {"name": "gpu", "claim": "DRA", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}


def cluster(name, *, nodes=1, ready="True", address="192.0.2.1", **spec):
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "k"}}},
            "nodePools": [{"name": "pool", "className": "h200", "nodeCount": nodes}],
            **spec,
        },
        "status": {
            "gateway": {"address": address},
            "gpuPools": [{"name": "pool", "className": "h200", "nodes": nodes, "devices": [GPU]}],
            "conditions": [
                {"type": "Ready", "status": ready, "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
        },
    }


def deployment(name, *, replicas=1, count=8, scheduled="True"):
    template = {"spec": {"containers": [{"name": "engine", "image": "v", "args": ["m"]}]}}
    selectors = [{"cel": 'device.driver == "gpu.nvidia.com"'}]
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [{"name": "gpu", "count": count, "selectors": selectors}]},
            "workers": {"template": template},
        },
        "status": {"conditions": [{"type": "ReplicasScheduled", "status": scheduled, "reason": "R"}]},
    }


def composed(cache, manifest):
    """One call for the composite, as the server makes it."""
    with cache.decision_lock(manifest["kind"]):
        found = answer(FunctionCall(manifest), 1_800_000_000.0, cache)
        cache.assume(manifest["kind"], [item.manifest for item in found.resources.values()])
    return found


def replicas_of(found):
    return [item.manifest for item in found.resources.values() if item.manifest["kind"] == "ModelReplica"]


def digest_of(api, kind, name, namespace=""):
    return api.get(kind, name, namespace)["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION, "")


def watching(story, pause_s=0.01):
    """Runs a story with a Live that has listed everything."""

    async def with_live(api, client):
        story.given(api)
        live = Live(client, CollectorRegistry(), FunctionCaches(), pause_s=pause_s)
        async with running(live.run()):
            await until(lambda: live.informers.synced)
            await until(lambda: api.asked["watch"] == 4)
            await story(api, live.cache)

    tell(with_live)


def given(prepare):
    """Says what is there before anybody looks."""

    def named(story):
        story.given = prepare
        return story

    return named


async def settled(api):
    """Nobody was touched for a while."""
    before = -1
    while api.asked["patch"] != before:
        before = api.asked["patch"]
        await asyncio.sleep(0.4)


def test_nothing_is_asked_of_crossplane_once_everything_was_listed():
    @given(lambda api: api.put(CLUSTERS, cluster("east")))
    async def story(_api, cache):
        found = composed(cache, deployment("qwen"))
        assert dict(found.requirements) == {}
        assert [item["spec"]["clusterName"] for item in replicas_of(found)] == ["east"]

    watching(story)


def test_until_then_crossplane_is_asked():
    async def story(_api, client):
        live = Live(client, CollectorRegistry(), FunctionCaches())
        cache = live.cache
        assert cache.fleet() is None
        assert cache.find(Requirement(API, "InferenceCluster", name="east")) is None
        assert set(answer(FunctionCall(deployment("qwen")), 0.0, cache).requirements) == {
            "clusters",
            "replicas",
            "caches",
        }

    tell(story)


def test_two_deployments_cannot_take_the_same_devices_before_either_is_seen():
    @given(lambda api: api.put(CLUSTERS, cluster("east", nodes=1)))
    async def story(_api, cache):
        first, second = composed(cache, deployment("one")), composed(cache, deployment("two"))
        assert (len(replicas_of(first)), len(replicas_of(second))) == (1, 0)
        scheduled = next(c for c in second.conditions if c.type == "ReplicasScheduled")
        assert (str(scheduled.status), scheduled.reason) == ("False", "InsufficientCapacity")
        again = composed(cache, deployment("one"))
        assert replicas_of(again) == replicas_of(first)

    watching(story)


def test_a_replica_that_was_seen_holds_what_it_was_given():
    @given(lambda api: api.put(CLUSTERS, cluster("east", nodes=1)))
    async def story(api, cache):
        seen_replica(api, cache, "one")
        await until(lambda: cache.find(Requirement(API, "ModelReplica")))
        (holding,) = cache.fleet().replicas
        assert (
            holding.fault,
            [claim.count for seat in holding.assignments for m in seat.members for claim in m.claims],
        ) == (
            "",
            [8],
        )
        assert len(replicas_of(composed(cache, deployment("one")))) == 1
        assert replicas_of(composed(cache, deployment("two"))) == []

    watching(story)


def test_what_was_decided_and_never_done_stops_counting(monkeypatch):
    monkeypatch.setattr("modelplane.crossplane.fleet_cache._ASSUMED_S", -1.0)

    @given(lambda api: api.put(CLUSTERS, cluster("east", nodes=1)))
    async def story(_api, cache):
        composed(cache, deployment("one"))
        assert len(replicas_of(composed(cache, deployment("two")))) == 1

    watching(story)


def seen_replica(api, cache, name):
    """The replica of a deployment is made by Crossplane, and seen."""
    for item in replicas_of(composed(cache, deployment(name))):
        api.put(REPLICAS, item)


def fleet_of_two(api):
    for name in ("east", "west"):
        api.put(CLUSTERS, cluster(name, nodes=1))
    for name in ("one", "two", "late"):
        api.put(DEPLOYMENTS, deployment(name, scheduled="False" if name == "late" else "True"))


def test_a_cluster_that_fails_wakes_its_own_replicas_and_their_deployment_and_nobody_else():
    @given(fleet_of_two)
    async def story(api, cache):
        seen_replica(api, cache, "one")
        seen_replica(api, cache, "two")
        await until(lambda: len(cache.find(Requirement(API, "ModelReplica"))) == 2)
        await settled(api)
        placed = {item["spec"]["clusterName"]: item for item in cache.find(Requirement(API, "ModelReplica"))}
        before = {name: digest_of(api, DEPLOYMENTS, name, "team") for name in ("one", "two")}
        api.put(CLUSTERS, cluster("east", nodes=1, ready="False"))
        hit = placed["east"]["spec"]["deployment"]["name"]
        spared = placed["west"]["spec"]["deployment"]["name"]
        await until(lambda: digest_of(api, DEPLOYMENTS, hit, "team") != before[hit])
        await settled(api)
        assert digest_of(api, DEPLOYMENTS, spared, "team") == before[spared]
        # Its spec and its gateway are what they were, so its replicas would be composed to the same.
        assert digest_of(api, REPLICAS, placed["east"]["metadata"]["name"], "team") == ""
        api.put(CLUSTERS, cluster("east", nodes=1, ready="False", address="192.0.2.99"))
        await until(lambda: digest_of(api, REPLICAS, placed["east"]["metadata"]["name"], "team"))
        assert digest_of(api, REPLICAS, placed["west"]["metadata"]["name"], "team") == ""

    watching(story)


def test_room_that_appears_wakes_those_who_wait_for_it():
    @given(fleet_of_two)
    async def story(api, cache):
        seen_replica(api, cache, "one")
        await until(lambda: len(cache.find(Requirement(API, "ModelReplica"))) == 1)
        await settled(api)
        before = {name: digest_of(api, DEPLOYMENTS, name, "team") for name in ("one", "late")}
        api.put(CLUSTERS, cluster("north", nodes=4))
        await until(lambda: digest_of(api, DEPLOYMENTS, "late", "team") != before["late"])
        await settled(api)
        assert digest_of(api, DEPLOYMENTS, "one", "team") == before["one"]

    watching(story)


def test_a_replica_that_comes_or_goes_wakes_its_cluster_and_equal_facts_wake_nobody():
    @given(fleet_of_two)
    async def story(api, cache):
        seen_replica(api, cache, "one")
        await until(lambda: any(digest_of(api, CLUSTERS, name) for name in ("east", "west")))
        await settled(api)
        touched = {name: digest_of(api, CLUSTERS, name) for name in ("east", "west")}
        assert sum(1 for text in touched.values() if text) == 1
        patches = api.asked["patch"]
        replica = cache.find(Requirement(API, "ModelReplica"))[0]
        noisy = {**replica, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Starting"}]}}
        api.put(REPLICAS, noisy)
        await settled(api)
        assert api.asked["patch"] == patches
        assert {name: digest_of(api, CLUSTERS, name) for name in ("east", "west")} == touched

    watching(story)


def test_whoever_was_told_something_else_while_nobody_watched_is_woken():
    def stale(api):
        api.put(CLUSTERS, cluster("east"))
        told = deployment("qwen")
        told["metadata"]["annotations"] = {DIGEST_ANNOTATION: "long ago"}
        api.put(DEPLOYMENTS, told)

    @given(stale)
    async def story(api, _cache):
        await until(lambda: digest_of(api, DEPLOYMENTS, "qwen", "team") != "long ago")

    watching(story)


def test_a_cache_wakes_the_replicas_that_mount_it():
    def with_cache(api):
        api.put(CLUSTERS, cluster("east"))
        api.put(CACHES, _cache("Pending"))

    @given(with_cache)
    async def story(api, cache):
        for item in replicas_of(composed(cache, deployment("qwen"))):
            for name, caches in (("with", [{"name": "weights", "mountPath": "/m"}]), ("without", [])):
                metadata = {**item["metadata"], "name": name}
                api.put(REPLICAS, {**item, "metadata": metadata, "spec": {**item["spec"], "caches": caches}})
        await until(lambda: len(cache.find(Requirement(API, "ModelReplica"))) == 2)
        await settled(api)
        api.put(CACHES, _cache("Ready"))
        await until(lambda: digest_of(api, REPLICAS, "with", "team"))
        await settled(api)
        assert digest_of(api, REPLICAS, "without", "team") == ""

    watching(story)


def _cache(phase):
    return {
        "apiVersion": API,
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "team"},
        "spec": {"artifact": {"kind": "Weights"}, "source": "HuggingFace", "huggingFace": {"repo": "a/b"}},
        "status": {"clusters": [{"name": "east", "phase": phase}]},
    }


@pytest.mark.parametrize("size", [5, 50])
def test_a_change_of_one_cluster_touches_as_many_composites_however_large_the_fleet_is(size):
    def fleet(api):
        for number in range(size):
            api.put(CLUSTERS, cluster(f"c{number:03d}", nodes=1))
            api.put(DEPLOYMENTS, deployment(f"d{number:03d}"))

    @given(fleet)
    async def story(api, cache):
        for number in range(size):
            seen_replica(api, cache, f"d{number:03d}")
        await until(lambda: len(cache.find(Requirement(API, "ModelReplica"))) == size)
        await settled(api)
        before = api.asked["patch"]
        api.put(CLUSTERS, cluster("c000", nodes=1, ready="False"))
        await until(lambda: api.asked["patch"] > before)
        await settled(api)
        assert api.asked["patch"] - before == 1

    watching(story)


def test_the_endpoint_of_a_replica_is_vouched_for_by_what_the_server_watches():
    replica = {
        "metadata": {"name": "r", "namespace": "team"},
        "spec": {"clusterName": "east", "engines": []},
        "status": {"address": "http://10.0.0.7", "conditions": []},
    }
    endpoint = {
        "apiVersion": API,
        "kind": "ModelEndpoint",
        "metadata": {"name": "r", "namespace": "team", "uid": "e"},
        "spec": {"url": "http://10.0.0.7", "replica": {"name": "r", "clusterName": "east"}},
    }

    @given(lambda api: api.put(REPLICAS, replica))
    async def story(_api, cache):
        found = composed(cache, endpoint)
        assert dict(found.requirements) == {}
        assert [item["kind"] for item in (each.manifest for each in found.resources.values())] == ["Backend"]
        other = composed(cache, {**endpoint, "spec": {**endpoint["spec"], "url": "http://10.0.0.8"}})
        assert not other.resources
        assert other.ttl_s == 2.0

    watching(story)
