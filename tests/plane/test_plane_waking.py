"""Who looks again when room comes or goes: those who wait, those who hold some there, and nobody else."""

from pathlib import Path

import pytest
import yaml

from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
GROUP = "modelplane.ai"


def documents(*kinds):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from (each for each in yaml.safe_load_all(path.read_text()) if each["kind"] in kinds)


def deployment(name, replicas, **spec):
    """Whole nodes, of which the fleet has four."""
    (example,) = documents("ModelDeployment")
    devices = [{**example["spec"]["nodeSelector"]["devices"][0], "count": 8}]
    own = {"replicas": replicas, "labels": {"app": name}, "nodeSelector": {"devices": devices}, **spec}
    return {**example, "metadata": {"name": name, "namespace": "default"}, "spec": {**example["spec"], **own}}


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass", "InferenceCluster", "InferenceGateway"):
                fleet.plane.create(manifest)
            await clock.sleep(5)
            await story(fleet, clock)

    run_virtual(main)


def scheduled(fleet, name):
    return condition_of(fleet.get("ModelDeployment", name, "default"), "ReplicasScheduled")["status"]


def resize(fleet, name, replicas):
    found = fleet.get("ModelDeployment", name, "default")
    fleet.plane.replace({**found, "spec": {**found["spec"], "replicas": replicas}})


@pytest.mark.parametrize("makes_room", ["scaled down", "deleted", "a new cluster"])
def test_whoever_waits_gets_the_room(makes_room):
    async def story(fleet, clock):
        fleet.plane.create(deployment("large", 4))
        await clock.sleep(20)
        fleet.plane.create(deployment("late", 1))
        await clock.sleep(20)
        assert (scheduled(fleet, "large"), scheduled(fleet, "late")) == ("True", "False")
        if makes_room == "scaled down":
            resize(fleet, "large", 3)
        elif makes_room == "deleted":
            fleet.plane.delete(ObjectRef(GROUP, "ModelDeployment", "default", "large"))
        else:
            (east, _) = documents("InferenceCluster")
            fleet.plane.create({**east, "metadata": {"name": "north"}})
        await clock.sleep(60)
        assert scheduled(fleet, "late") == "True"

    virtually(story)


def test_a_cluster_that_changes_concerns_those_on_it_and_those_who_wait():
    async def story(fleet, clock):
        for name, region in (("there", "us-west"), ("elsewhere", "us-east")):
            fleet.plane.create(deployment(name, 1, clusterSelector={"matchLabels": {"region": region}}))
        fleet.plane.create(deployment("waiting", 3))
        await clock.sleep(60)
        assert [scheduled(fleet, name) for name in ("there", "elsewhere", "waiting")] == ["True", "True", "False"]
        west = fleet.get("InferenceCluster", "west")
        (pool,) = west["status"]["gpuPools"]
        fleet.plane.replace_status(
            {**west, "status": {**west["status"], "gpuPools": [{**pool, "nodes": 3, "observedNodes": 3}]}}
        )
        queued = [key.name for key in fleet.controller.loop._queue._ready if key.kind == "ModelDeployment"]
        assert sorted(queued) == ["there", "waiting"]

    virtually(story)


def test_what_is_counted_for_people_concerns_nobody():
    async def story(fleet, clock):
        fleet.plane.create(deployment("there", 1, clusterSelector={"matchLabels": {"region": "us-west"}}))
        await clock.sleep(60)
        west = fleet.get("InferenceCluster", "west")
        fleet.plane.replace_status({**west, "status": {**west["status"], "freeDevices": 1}})
        assert [key for key in fleet.controller.loop._queue._ready if key.kind == "ModelDeployment"] == []

    virtually(story)
