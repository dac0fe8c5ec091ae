"""A cluster fails: what the plane does about it, in virtual time; and what clients see of it, through a real Envoy."""

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import yaml

from modelplane.local.apply import admitted
from modelplane.local.cluster import ClusterSettings
from modelplane.local.plane import Plane, PlaneSettings
from modelplane.local.store import Database
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import run_virtual
from modelplane.testing.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
QUICK = ClusterSettings(pull_s=0.1, load_s=0.2, probe_s=0.1)


def quickstart(**failover):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] == "ModelDeployment":
                manifest["spec"]["failover"] = failover
            yield manifest


def virtually(story, **failover):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in quickstart(**failover):
                if manifest["kind"] == "ModelDeployment":
                    await clock.sleep(5)
                fleet.plane.create(manifest)
            await clock.sleep(20)
            assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}
            await story(fleet, clock)

    run_virtual(main)


def test_a_failed_cluster_serves_nobody_and_its_replicas_wait_for_the_grace():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(1)
        assert not fleet.is_ready("east")
        assert fleet.endpoints() == {"west": 1}
        assert set(fleet.engines.running.values()) == {
            name for name in fleet.engines.running.values() if "west" in name
        }
        await clock.sleep(55)
        assert fleet.replicas() == {("east", 0): "False", ("west", 0): "True"}
        await clock.sleep(20)
        assert fleet.replicas() == {("east", 0): "leaving", ("west", 0): "True", ("west", 1): "True"}
        assert fleet.endpoints() == {"west": 2}

    virtually(story, gracePeriodSeconds=60)


def test_a_cluster_that_recovers_in_time_keeps_its_replicas():
    async def story(fleet, clock):
        seen = []
        fleet.plane.subscribe(lambda change: seen.append(change.ref.kind) if change.type != "MODIFIED" else None)
        fleet.clusters.fail("east")
        await clock.sleep(30)
        fleet.clusters.recover("east")
        await clock.sleep(300)
        assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}
        # Once out of the endpoints, once back in: what stale statuses said never counted.
        assert Counter(seen)["ModelEndpoint"] == 2
        assert "ModelReplica" not in seen

    virtually(story, gracePeriodSeconds=60)


def test_a_recovered_cluster_counts_only_once_its_engines_run_again():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(5)
        fleet.engines.start_s = 40.0
        fleet.clusters.recover("east")
        await clock.sleep(20)
        assert fleet.is_ready("east")
        assert fleet.endpoints() == {"west": 1}
        await clock.sleep(60)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story, gracePeriodSeconds=600)


def test_what_moved_stays_and_what_was_left_behind_goes_when_the_cluster_is_back():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(60)
        assert fleet.replicas()["east", 0] == "leaving"
        fleet.clusters.recover("east")
        await clock.sleep(120)
        assert fleet.replicas() == {("west", 0): "True", ("west", 1): "True"}
        assert fleet.database.store("cluster/east").list("apps", "Deployment") == ()

    virtually(story, gracePeriodSeconds=10)


def test_a_deployment_that_asks_for_no_failover_waits():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(600)
        assert fleet.replicas() == {("east", 0): "False", ("west", 0): "True"}

    virtually(story, policy="Never")


def test_flapping_moves_nothing_and_starts_the_grace_anew():
    async def story(fleet, clock):
        for _ in range(5):
            fleet.clusters.fail("east")
            await clock.sleep(40)
            fleet.clusters.recover("east")
            await clock.sleep(40)
        assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}

    virtually(story, gracePeriodSeconds=60)


def test_a_failure_outlives_a_restart_of_the_plane():
    async def main(clock):
        database = Database(None, clock=clock)
        async with running_fleet(clock, database) as fleet:
            for manifest in quickstart():
                fleet.plane.create(manifest)
            await clock.sleep(20)
            fleet.clusters.fail("east")
            await clock.sleep(5)
        async with running_fleet(clock, database) as again:
            await clock.sleep(20)
            assert again.endpoints() == {"west": 1}
            assert not again.is_ready("east")
            again.clusters.recover("east")
            await clock.sleep(20)
            assert again.endpoints() == {"east": 1, "west": 1}

    run_virtual(main)


def test_a_cluster_that_is_removed_is_simulated_no_more():
    async def story(fleet, clock):
        fleet.plane.delete(ObjectRef("modelplane.ai", "ModelDeployment", "default", "qwen3-8b"))
        await clock.sleep(30)
        assert fleet.replicas() == {}
        fleet.plane.delete(ObjectRef("modelplane.ai", "InferenceCluster", "", "east"))
        await clock.sleep(30)
        assert fleet.clusters.get("east") is None
        assert fleet.clusters.get("west") is not None
        assert "cluster/east" not in fleet.database.stores()

    virtually(story)


def observed(fleet, cluster):
    (pool,) = fleet.get("InferenceCluster", cluster)["status"]["gpuPools"]
    return pool.get("observedNodes"), sum(device.get("free", 0) for device in pool["devices"])


def test_the_plane_sees_what_the_nodes_of_a_cluster_have_left():
    async def story(fleet, clock):
        assert observed(fleet, "east") == (2, 15)
        fleet.clusters.get("east").cordon_node("h200-1")
        await clock.sleep(5)
        assert observed(fleet, "east") == (1, 7)
        fleet.clusters.fail("east")
        await clock.sleep(5)
        assert observed(fleet, "east")[0] == 1

    virtually(story)


class Load:
    """A request every few milliseconds, one after the other being answered or not."""

    def __init__(self, url):
        self._url = f"{url}/v1/completions"
        self._stop = asyncio.Event()
        self.answers = []

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await self._task

    async def _run(self):
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
            while not self._stop.is_set():
                tasks.create_task(self._ask(session))
                await asyncio.sleep(0.02)

    async def _ask(self, session):
        began = asyncio.get_running_loop().time()
        try:
            body = {"model": "qwen3-8b", "prompt": "hello", "max_tokens": 2}
            async with session.post(self._url, json=body) as answer:
                await answer.read()
                self.answers.append((began, answer.status, answer.headers.get("x-served-by", "")))
        except aiohttp.ClientError as error:
            self.answers.append((began, repr(error), ""))


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  what it waits for tells nobody
            await asyncio.sleep(0.02)


def ready_replicas(plane):
    found = plane.store.get(ObjectRef("modelplane.ai", "ModelDeployment", "default", "qwen3-8b")) or {}
    return {c["name"]: c.get("ready", 0) for c in found.get("status", {}).get("clusters", ())}


@pytest.mark.e2e
@pytest.mark.timeout(60)
def test_no_request_is_lost_that_could_be_served_elsewhere(tmp_path):
    async def main():
        settings = PlaneSettings(data=tmp_path, cluster=QUICK, engine_speed=20)
        async with Plane(settings) as plane:
            create(plane, "Inference")
            await until(lambda: all_ready(plane, "InferenceCluster"))
            create(plane, "Model")
            await until(lambda: ready_replicas(plane) == {"east": 1, "west": 1} and all_ready(plane, "ModelService"))
            (service,) = plane.store.list("modelplane.ai", "ModelService")
            await first_answer(service["status"]["address"])
            async with Load(service["status"]["address"]) as load:
                await asyncio.sleep(0.5)
                east = plane.clusters.get("east")
                plane.clusters.fail("east")
                await until(lambda: not east.reachable and not east._kubelet.busy)
                dark = asyncio.get_running_loop().time()
                await until(lambda: ready_replicas(plane).get("west") == 2)
                plane.clusters.recover("east")
                await until(lambda: plane.clusters.get("east").reachable)
                await asyncio.sleep(0.5)
            return dark, load.answers

    dark, answers = asyncio.run(main())
    assert {status for began, status, _ in answers if began > dark} == {200}
    assert Counter(status for _, status, _ in answers)[200] >= len(answers) - 1
    served = {by.partition("/")[0] for began, _, by in answers if began > dark}
    assert served == {"west"}


def create(plane, prefix):
    for manifest in quickstart(gracePeriodSeconds=1):
        if manifest["kind"].startswith(prefix):
            plane.store.create(admitted(manifest))


def all_ready(plane, kind):
    items = plane.store.list("modelplane.ai", kind)
    return bool(items) and all(
        {c["type"]: c["status"] for c in item.get("status", {}).get("conditions", ())}.get("Ready") == "True"
        for item in items
    )


async def first_answer(url):
    async with aiohttp.ClientSession() as session:
        for _ in range(50):
            async with session.get(f"{url}/v1/models") as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.05)
    pytest.fail(f"{url} never answered")
