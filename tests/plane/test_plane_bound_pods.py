"""A pool with pods of several sizes takes whole-node replicas on the nodes that are free, once pods are bound."""

import copy
from pathlib import Path

import yaml

from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
NODES, SINGLES = 4, 4


def documents():
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def made(name, replicas, devices):
    example = copy.deepcopy(next(item for item in documents() if item["kind"] == "ModelDeployment"))
    example["metadata"]["name"] = name
    example["spec"]["replicas"] = replicas
    example["spec"]["nodeSelector"]["devices"][0]["count"] = devices
    return example


def resize(fleet, nodes):
    east = fleet.get("InferenceCluster", "east")
    pool = {**east["spec"]["nodePools"][0], "nodeCount": nodes}
    fleet.plane.replace({**east, "spec": {**east["spec"], "nodePools": [pool]}})


def test_whole_node_replicas_take_the_nodes_that_small_ones_left_free():
    """Four small pods could be on four nodes. They started on one, before there were others, and the plane knows."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for item in documents():
                if item["metadata"]["name"] == "east" or item["kind"] == "InferenceClass":
                    fleet.plane.create(item)
            resize(fleet, 1)
            await clock.sleep(5)
            fleet.plane.create(made("small", SINGLES, 1))
            await clock.sleep(40)
            resize(fleet, NODES)
            await clock.sleep(20)
            east = fleet.get("InferenceCluster", "east")["status"]
            assert east["gpuPools"][0]["observedNodes"] == NODES
            assert sum(each.get("pods", 1) for each in east["boundPods"]) == SINGLES
            assert len({each["node"] for each in east["boundPods"]}) == 1
            fleet.plane.create(made("large", NODES, 8))
            await clock.sleep(60)
            status = fleet.get("ModelDeployment", "large", "default")["status"]
            assert (status["replicas"], status["readyReplicas"]) == (NODES - 1, NODES - 1)
            assert list(fleet.replicas().values()) == ["True"] * len(fleet.replicas())

    run_virtual(main)
