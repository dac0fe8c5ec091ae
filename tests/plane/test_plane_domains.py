"""A rack as a unit: engines that span nodes stay in one domain of the fabric, on a whole plane."""

import copy
from pathlib import Path

import yaml

from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
KEY = "nvidia.com/gpu.clique"


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


async def start(fleet, clock, nodes):
    """One cluster whose nodes are in racks of three."""
    for item in documents():
        made = copy.deepcopy(item)
        if made["metadata"]["name"] == "east":
            pool = made["spec"]["nodePools"][0]
            pool["nodeCount"] = nodes
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


def test_an_engine_stays_in_one_rack_and_has_it_for_itself():
    """Seven nodes are two racks of three and one node over. Replicas of two nodes take a rack each."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, 7)
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
