"""A canary that fails requests is halted on Crossplane by what a real router's metrics say."""

import asyncio
import time
from collections import Counter

from prometheus_client import CollectorRegistry

from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import FunctionCall, answer
from modelplane.crossplane.fleet_informers import CLUSTERS, DEPLOYMENTS
from modelplane.crossplane.live import Live
from modelplane.crossplane.traffic_scraper import ENDPOINTS
from modelplane.router.admin import RouterAdmin
from tests.crossplane.test_crossplane_live import cluster, deployment
from tests.router.conftest import Front, plan
from tests.router.conftest import endpoint as plan_endpoint
from tests.support.kube_api import running, tell
from tests.support.waiting import until

HOST = "127.0.0.1"
REVISION = "modelplane.ai/revision"
CANARY = {
    "steps": [{"weight": 10, "untilPromoted": True}],
    "analysis": {"minRequests": 20, "maxErrorRate": "2%"},
}
SINCE = "2026-01-01T00:00:00Z"


def canary_deployment(image="v"):
    made = deployment("qwen", replicas=2, count=1)
    made["spec"]["rollout"] = {"canary": CANARY}
    made["spec"]["workers"]["template"]["spec"]["containers"][0]["image"] = image
    return made


def serving(manifest):
    """A composed object as a cluster that serves it would leave it."""
    if manifest["kind"] != "ModelReplica":
        return manifest
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": SINCE, "observedGeneration": 1}
        for kind in ("Accepted", "WorkloadReady", "RouteReady", "Ready")
    ]
    ready = {"conditions": conditions, "address": "http://192.0.2.1", "servedGeneration": 1}
    return {**manifest, "metadata": {**manifest["metadata"], "generation": 1}, "status": ready}


class Fleet:
    """A deployment that is composed by the function, call by call."""

    def __init__(self, live):
        self._cache = live.cache
        self.composite = canary_deployment()
        self.composed = {}

    def call(self, times=1):
        for _ in range(times):
            with self._cache.decision_lock("ModelDeployment"):
                found = answer(FunctionCall(self.composite, self.composed), time.time(), self._cache)
                self._cache.assume("ModelDeployment", [item.manifest for item in found.resources.values()])
            self.composite["status"] = {**found.status}
            kept = {key: self.composed[key].get("status") for key in self.composed}
            made = {key: serving(item.manifest) for key, item in found.resources.items()}
            self.composed = {key: {"status": kept.get(key) or {}, **item} for key, item in made.items()}
        return found

    def endpoints(self):
        found = (item for item in self.composed.values() if item["kind"] == "ModelEndpoint")
        return {item["metadata"]["name"]: item for item in found}

    def observe_endpoints(self, api):
        for item in self.composed.values():
            if item["kind"] == "ModelEndpoint":
                item["status"] = api.get(ENDPOINTS, item["metadata"]["name"], "team").get("status", {})


def test_a_canary_is_halted_by_the_metrics_of_a_router():
    async def story(api, client):
        api.put(CLUSTERS, cluster("east", nodes=2))
        door = Front()
        admin = RouterAdmin(door.director, (HOST, 0), lambda: door.now_s)
        await admin.start()
        live = Live(
            client,
            CollectorRegistry(),
            FunctionCaches(),
            pause_s=0.01,
            traffic_metrics=(f"http://localhost:{admin.port}/metrics",),
        )
        try:
            async with running(live.run()):
                await until(lambda: live.informers.synced)
                await halted_by_figures(api, live, door)
        finally:
            await admin.stop()

    tell(story)


async def halted_by_figures(api, live, door):
    fleet = Fleet(live)
    fleet.call(4)
    assert len(fleet.endpoints()) == 2
    fleet.composite["spec"] = canary_deployment("w")["spec"]
    fleet.composite["metadata"]["generation"] = 2
    fleet.call(4)
    hashes = Counter(item["metadata"]["labels"][REVISION] for item in fleet.endpoints().values())
    new = fleet.composite["status"]["rollout"]["hash"]
    assert (hashes[new], hashes.total()) == (1, 2)
    analysis = fleet.composite["status"]["rollout"]["canary"]
    assert (analysis["analysis"], "waits to be promoted" in analysis["message"]) == ("NotMeasured", True)

    for item in fleet.endpoints().values():
        api.put(ENDPOINTS, item)
    api.put(DEPLOYMENTS, fleet.composite)
    canary = next(name for name, item in fleet.endpoints().items() if item["metadata"]["labels"][REVISION] == new)
    door.catalog.replace([plan([plan_endpoint(name) for name in fleet.endpoints()])])

    def fact(name):
        return api.get(ENDPOINTS, name, "team").get("status", {}).get("traffic", {})

    await until(lambda: all(fact(name) for name in fleet.endpoints()))
    await asyncio.sleep(0.1)
    for number in range(120):
        routed = door.send()
        fails = routed.member.plan.name == canary and number % 4 < 2
        door.now_s += 1.0
        door.end(routed, 500 if fails else 200)
        door.now_s += 60.0
    await until(lambda: fact(canary)["requests"] >= 40)
    assert fact(canary)["revision"] == new
    assert fact(canary)["errors"] > 10
    assert 900 <= fact(canary)["latencyP95Milliseconds"] <= 1100
    fleet.observe_endpoints(api)
    found = fleet.call()
    assert ("Progressing", "RolloutHalted") in {(each.type, each.reason) for each in found.conditions}
    assert "requests failed" in fleet.composite["status"]["rollout"]["halted"]["message"]
    api.put(DEPLOYMENTS, fleet.composite)
    await until(lambda: not live.informers.analysed())
