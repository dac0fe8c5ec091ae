"""A rack as a unit: engines that span nodes stay in one domain of the fabric, on a whole plane."""

import copy
from pathlib import Path

import pytest
import yaml

from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
KEY = "nvidia.com/gpu.clique"
SCHEDULERS = {
    "None": {"type": "None"},
    "KAI": {"type": "KAI", "queue": "serving", "version": "0.17.0"},
    "Kueue": {"type": "Kueue", "queue": "serving", "version": "0.19.0"},
    "Volcano": {"type": "Volcano", "queue": "serving", "version": "1.15.1"},
}


def documents():
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def deployment(name, replicas, nodes):
    example = copy.deepcopy(next(item for item in documents() if item["kind"] == "ModelDeployment"))
    example["metadata"]["name"] = name
    example["spec"]["replicas"] = replicas
    example["spec"]["nodeSelector"]["devices"][0]["count"] = 8
    example["spec"]["workers"]["topology"] = {"tensor": 8, "pipeline": nodes}
    return example


async def start(fleet, clock, nodes, scheduling):
    """One cluster whose nodes are in racks of three."""
    for item in documents():
        made = copy.deepcopy(item)
        if made["metadata"]["name"] == "east":
            pool = made["spec"]["nodePools"][0]
            pool["nodeCount"] = nodes
            made["spec"]["scheduling"] = scheduling
            pool["fabric"] = {"domain": {"topologyKey": KEY, "nodeCount": 3}}
        if made["kind"] == "InferenceClass" or made["metadata"]["name"] == "east":
            fleet.plane.create(made)
    await clock.sleep(10)


def domains(fleet):
    """The domains of the pods of each replica."""
    store = fleet.database.store("cluster/east")
    racks = {node["metadata"]["name"]: node["metadata"]["labels"].get(KEY) for node in store.list("", "Node")}
    found = {}
    for pod in fleet.pods("east"):
        group = pod["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/group-key")
        if group:
            found.setdefault(group, []).append(racks.get(pod["spec"].get("nodeName")))
    return sorted(map(sorted, found.values()))


def message(fleet, name):
    conditions = fleet.get("ModelDeployment", name, "default")["status"]["conditions"]
    return next(each["message"] for each in conditions if each["type"] == "ReplicasScheduled")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_engine_stays_in_one_rack_and_has_it_for_itself(scheduler):
    """Seven nodes are two racks of three and one node over. Replicas of two nodes take a rack each."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, 7, SCHEDULERS[scheduler])
            pool = fleet.get("InferenceCluster", "east")["status"]["gpuPools"][0]
            assert pool["domain"] == {"topologyKey": KEY, "nodeCount": 3, "complete": 2}
            fleet.plane.create(deployment("chat", 3, 2))
            await clock.sleep(90)
            status = fleet.get("ModelDeployment", "chat", "default")["status"]
            assert (status["replicas"], status["readyReplicas"]) == (2, 2)
            assert [len(set(racks)) for racks in domains(fleet)] == [1, 1]
            assert {racks[0] for racks in domains(fleet)} == {"h200-domain-0", "h200-domain-1"}
            wanted = "needs 1 free domain of 3 nodes (nvidia.com/gpu.clique); 0 of 2 domains are free"
            assert wanted in message(fleet, "chat")
            fleet.plane.create(deployment("large", 1, 4))
            fleet.plane.create(deployment("single", 1, 1))
            await clock.sleep(10)
            assert "needs 4 nodes in one domain; a domain (nvidia.com/gpu.clique) has 3" in message(fleet, "large")
            assert "its domains of 3 nodes (nvidia.com/gpu.clique) are for engines that span nodes" in message(
                fleet, "single"
            )

    run_virtual(main)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_copies_of_one_replica_are_in_racks_of_their_own(scheduler):
    """A replica of two copies, each over two nodes, on racks of three: they cannot share one."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, 6, SCHEDULERS[scheduler])
            item = deployment("chat", 1, 2)
            item["spec"]["workers"]["count"] = 2
            fleet.plane.create(item)
            await clock.sleep(90)
            assert fleet.get("ModelDeployment", "chat", "default")["status"]["readyReplicas"] == 1
            assert sorted(set(racks) for racks in domains(fleet)) == [{"h200-domain-0"}, {"h200-domain-1"}]

    run_virtual(main)


def test_a_scheduler_that_cannot_keep_a_rack_whole_gets_no_engine():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, 6, {"type": "Volcano", "queue": "serving", "version": "1.13.0"})
            fleet.plane.create(deployment("chat", 1, 2))
            await clock.sleep(20)
            assert fleet.replicas() == {}
            wanted = "spec.scheduling.version: an engine is kept in one domain of a fabric by Volcano 1.14 or newer"
            assert wanted in message(fleet, "chat")

    run_virtual(main)
