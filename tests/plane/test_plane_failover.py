"""A cluster fails: what the plane does about it, in virtual time."""

from collections import Counter
from pathlib import Path

import yaml

from modelplane.apiserver.store.database import Database
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import annotated, condition_of
from modelplane.sim.cluster.settings import FAULTY_DEVICES
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


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
        await clock.sleep(4)
        assert fleet.endpoints() == {"west": 1}
        assert set(fleet.engines.running.values()) == {
            name for name in fleet.engines.running.values() if "west" in name
        }
        await clock.sleep(51)
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


def test_a_replica_on_a_faulty_gpu_is_replaced_before_it_fails_and_the_pool_shrinks():
    """XID errors, ECC errors: the driver taints the device, and what runs on it may run for a while."""

    async def story(fleet, clock):
        east = fleet.clusters.get("east").api
        (claim,) = [item for item in east.list("resource.k8s.io", "ResourceClaim") if "allocation" in item["status"]]
        (held,) = claim["status"]["allocation"]["devices"]["results"]
        node = east.get(ObjectRef("", "Node", "", held["pool"]))
        east.replace(annotated(node, FAULTY_DEVICES, held["device"]))
        lowest = 2
        for _ in range(60):
            await clock.sleep(1)
            lowest = min(lowest, sum(ready == "True" for ready in fleet.replicas().values()))
        assert lowest == 2
        (now,) = [item for item in east.list("resource.k8s.io", "ResourceClaim") if "allocation" in item["status"]]
        (moved,) = now["status"]["allocation"]["devices"]["results"]
        assert (moved["pool"], moved["device"]) != (held["pool"], held["device"])
        (pool,) = fleet.get("InferenceCluster", "east")["status"]["gpuPools"]
        assert (pool["devices"][0]["missing"], observed(fleet, "east")) == (1, (2, 14))
        assert "faultyReplicas" not in fleet.get("InferenceCluster", "east")["status"]

    virtually(story)


def deletable(fleet, kind, name, namespace=""):
    return condition_of(fleet.get(kind, name, namespace), "Deletable")


def test_a_replica_that_is_deleted_says_that_it_waits_for_its_cluster():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(100)
        (leaving,) = [
            each
            for each in fleet.plane.list("modelplane.ai", "ModelReplica")
            if "deletionTimestamp" in each["metadata"]
        ]
        said = deletable(fleet, "ModelReplica", leaving["metadata"]["name"], "default")
        assert (said["status"], said["reason"]) == ("False", "WaitingForCluster")
        assert said["message"].startswith("waiting for the deletion of ")
        assert said["message"].endswith(" on east, which is unreachable; deleting the InferenceCluster abandons them")

    virtually(story, gracePeriodSeconds=60)


def test_a_failed_cluster_that_is_deleted_is_given_up_after_a_while():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(100)
        fleet.plane.delete(ObjectRef("modelplane.ai", "InferenceCluster", "", "east"))
        await clock.sleep(10)
        said = deletable(fleet, "InferenceCluster", "east")
        assert said["status"] == "False"
        assert said["reason"] in {"InUse", "WaitingForCluster"}
        await clock.sleep(320)
        assert fleet.plane.get(ObjectRef("modelplane.ai", "InferenceCluster", "", "east")) is None
        assert fleet.replicas() == {("west", 0): "True", ("west", 1): "True"}
        assert "cluster/east" not in fleet.database.stores()

    virtually(story, gracePeriodSeconds=60)


def test_a_failed_cluster_that_is_deleted_goes_properly_when_it_comes_back():
    async def story(fleet, clock):
        fleet.clusters.fail("east")
        await clock.sleep(100)
        fleet.plane.delete(ObjectRef("modelplane.ai", "InferenceCluster", "", "east"))
        await clock.sleep(10)
        fleet.clusters.recover("east")
        await clock.sleep(60)
        assert fleet.plane.get(ObjectRef("modelplane.ai", "InferenceCluster", "", "east")) is None
        assert fleet.replicas() == {("west", 0): "True", ("west", 1): "True"}

    virtually(story, gracePeriodSeconds=60)
