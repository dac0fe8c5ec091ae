"""A cluster or a pool is drained: what the embedded plane does about it, in virtual time."""

from collections import Counter

import msgspec

from modelplane.api.objects import GROUP, items_at, text_at, value_at
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.plane.test_plane_failover import quickstart
from tests.support.local_fleet import running_fleet

LOAD_S = 30


def virtually(story, replicas=2):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in quickstart():
                if manifest["kind"] == "ModelDeployment":
                    await clock.sleep(5)
                    manifest["spec"]["replicas"] = replicas
                fleet.plane.create(manifest)
            await clock.sleep(40)
            assert Counter(fleet.replicas().values()) == {"True": replicas}
            for name in ("east", "west"):
                annotate(fleet, name, {"sim.modelplane.ai/load-seconds": str(LOAD_S)})
            await clock.sleep(1)
            await story(fleet, clock)

    run_virtual(main)


def change(fleet, name, edit):
    found = msgspec.json.decode(msgspec.json.encode(fleet.get("InferenceCluster", name)))
    edit(found)
    fleet.plane.replace(found)


def annotate(fleet, name, annotations):
    change(fleet, name, lambda item: item["metadata"].setdefault("annotations", {}).update(annotations))


def set_drain(fleet, name, drain):
    change(fleet, name, lambda item: item["spec"].update(drain=drain))


def end_drain(fleet, name):
    change(fleet, name, lambda item: item["spec"].pop("drain"))


def drained(fleet, name):
    condition = condition_of(fleet.get("InferenceCluster", name), "Drained")
    return condition.get("status"), condition.get("reason")


def events(fleet, *reasons):
    found = fleet.plane.list("", "Event")
    return Counter(text_at(item, "reason") for item in found if text_at(item, "reason") in reasons)


async def follow(fleet, clock, seconds):
    """How many replicas serve and how many are on their way, second by second."""
    seen = []
    for _ in range(seconds):
        await clock.sleep(1)
        seen.append((sum(fleet.endpoints().values()), Counter(fleet.replicas().values())["False"]))
    return seen


def test_replicas_leave_after_their_successors_serve_and_the_cluster_says_when_it_is_empty():
    async def story(fleet, clock):
        set_drain(fleet, "east", {"parallelism": 1})
        seen = await follow(fleet, clock, 3 * LOAD_S + 120)
        assert min(serving for serving, _ in seen) == 4
        assert max(starting for _, starting in seen) == 1
        assert {cluster for cluster, _ in fleet.replicas()} == {"west"}
        assert drained(fleet, "east") == ("True", "Drained")
        status = value_at(fleet.get("InferenceCluster", "east"), "status", "drain")
        assert (status["replicas"], status["total"], status["summary"]) == (0, 2, "0 of 2 left")
        assert events(fleet, "Draining", "Drained", "DrainDeadline") == {"Draining": 1, "Drained": 1}

    virtually(story, replicas=4)


def test_an_aborted_drain_leaves_what_serves_and_takes_back_what_does_not():
    async def story(fleet, clock):
        before = fleet.replicas()
        set_drain(fleet, "east", {})
        await clock.sleep(10)
        assert len(fleet.replicas()) == 3
        end_drain(fleet, "east")
        await clock.sleep(LOAD_S)
        assert fleet.replicas() == before
        assert drained(fleet, "east") == ("Unknown", "NotDraining")
        assert events(fleet, "NotDraining") == {"NotDraining": 1}
        assert value_at(fleet.get("InferenceCluster", "east"), "status", "noExecuteTaints") is None

    virtually(story)


def test_by_the_deadline_a_replica_leaves_without_a_successor_and_that_is_told():
    async def story(fleet, clock):
        change(fleet, "west", lambda item: item["spec"].update(cordoned=True))
        set_drain(fleet, "east", {"deadlineSeconds": 60})
        await clock.sleep(50)
        assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}
        scheduled = condition_of(fleet.get("ModelDeployment", "qwen3-8b", "default"), "ReplicasScheduled")
        assert "cluster east is being drained" in scheduled["message"]
        await clock.sleep(11)
        assert fleet.replicas().get(("east", 0), "leaving") == "leaving"
        assert fleet.endpoints() == {"west": 1}
        assert events(fleet, "DrainDeadline") == {"DrainDeadline": 1}

    virtually(story)


def test_a_no_execute_taint_drains_when_the_time_that_it_is_tolerated_for_is_over():
    async def story(fleet, clock):
        deployment = msgspec.json.decode(msgspec.json.encode(fleet.get("ModelDeployment", "qwen3-8b", "default")))
        deployment["spec"]["tolerations"] = [{"key": "fire", "operator": "Exists", "tolerationSeconds": 60}]
        fleet.plane.replace(deployment)
        await clock.sleep(200)
        assert Counter(fleet.replicas().values()) == {"True": 2}
        change(fleet, "east", lambda item: item["spec"].update(taints=[{"key": "fire", "effect": "NoExecute"}]))
        await clock.sleep(55)
        assert set(fleet.replicas()) == {("east", 0), ("west", 0)}
        seen = await follow(fleet, clock, LOAD_S + 40)
        assert min(serving for serving, _ in seen) == 2
        assert fleet.endpoints() == {"west": 2}

    virtually(story)


def test_a_pool_is_drained_to_another_pool_of_the_cluster():
    async def story(fleet, clock):
        def two_pools(item):
            (pool,) = item["spec"]["nodePools"]
            item["spec"]["nodePools"] = [{**pool, "drain": {}}, {**pool, "name": "spare"}]

        change(fleet, "west", lambda item: item["spec"].update(cordoned=True))
        change(fleet, "east", two_pools)
        seen = await follow(fleet, clock, LOAD_S + 60)
        assert min(serving for serving, _ in seen) == 2
        pools = {
            member["nodePoolName"]
            for item in fleet.plane.list(GROUP, "ModelReplica")
            if text_at(item, "spec", "clusterName") == "east" and not text_at(item, "metadata", "deletionTimestamp")
            for engine in items_at(item, "spec", "engines")
            for member in items_at(engine, "members")
        }
        assert pools == {"spare"}
        await clock.sleep(120)
        assert drained(fleet, "east") == ("True", "Drained")

    virtually(story)


def test_a_cluster_that_can_no_longer_run_its_replicas_keeps_them_until_others_serve():
    async def story(fleet, clock):
        # A name of a queue that cannot be made for any namespace.
        scheduling = {"type": "Kueue", "queue": "{{ .Team }}"}
        change(fleet, "east", lambda item: item["spec"].update(scheduling=scheduling))
        seen = await follow(fleet, clock, LOAD_S + 60)
        assert min(serving for serving, _ in seen) == 2
        assert fleet.endpoints() == {"west": 2}

    virtually(story)
