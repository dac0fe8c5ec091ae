"""Trouble for simulated clusters, asked for by name, and what becomes of it in the plane."""

import copy
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError, NotFoundError, UnavailableError
from modelplane.api.objects import name_of, namespace_of, text_at
from modelplane.sim.cluster.objects import condition_of
from modelplane.sim.cluster.settings import FAULTS
from modelplane.sim.commands.command import SimCommand
from modelplane.sim.commands.verbs import VERBS, inventory, perform
from modelplane.sim.engine import Faults
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "quickstart"


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for path in sorted(EXAMPLES.glob("*.yaml")):
                for manifest in yaml.safe_load_all(path.read_text()):
                    if manifest["kind"] == "ModelDeployment":
                        await clock.sleep(5)
                    fleet.plane.create(manifest)
            await clock.sleep(20)
            await story(fleet, clock)

    run_virtual(main)


def do(fleet, verb, cluster="east", name="", value=""):
    return perform(fleet.clusters, SimCommand(verb, cluster, name, value))


def nodes_of(fleet):
    return {text_at(pod, "spec", "nodeName") for pod in fleet.pods("east")}


def test_a_cluster_fails_and_recovers():
    async def story(fleet, clock):
        assert do(fleet, "fail-cluster").startswith("cluster east failed")
        await clock.sleep(5)
        assert fleet.endpoints() == {"west": 1}
        with pytest.raises(UnavailableError, match="cluster east has failed"):
            do(fleet, "cordon-node", name="h200-0")
        do(fleet, "recover-cluster")
        await clock.sleep(20)
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story)


def test_a_lost_node_costs_its_pods_until_they_start_elsewhere():
    async def story(fleet, clock):
        (node,) = nodes_of(fleet)
        do(fleet, "lose-node", name=node)
        await clock.sleep(60)
        assert fleet.endpoints() == {"west": 1}
        await clock.sleep(400)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        assert len(nodes_of(fleet)) == 2  # the old pod waits there to be confirmed
        do(fleet, "restore-node", name=node)
        await clock.sleep(60)
        assert len(nodes_of(fleet)) == 1

    virtually(story)


def test_a_drained_node_is_left_and_takes_no_more():
    async def story(fleet, clock):
        (node,) = nodes_of(fleet)
        assert do(fleet, "drain-node", name=node).endswith("is cordoned; 1 pod is being deleted.")
        await clock.sleep(30)
        assert nodes_of(fleet) == {"h200-0", "h200-1"} - {node}
        shown = {entry["name"]: entry["state"] for entry in inventory(fleet.clusters, "east")["nodes"]}
        assert shown[node] == "Ready, cordoned"
        do(fleet, "uncordon-node", name=node)
        assert inventory(fleet.clusters, "east")["nodes"][0]["state"] == "Ready"

    virtually(story)


def test_a_cordoned_node_keeps_what_it_has():
    async def story(fleet, clock):
        (node,) = nodes_of(fleet)
        do(fleet, "cordon-node", name=node)
        await clock.sleep(30)
        assert nodes_of(fleet) == {node}

    virtually(story)


def test_a_tainted_device_is_published_so_until_it_is_well():
    async def story(fleet, clock):
        for value, said, tainted in (
            ("gpu-3,gpu-5", "gpu-3,gpu-5 of node h200-0 of east is tainted", {"gpu-3", "gpu-5"}),
            ("off", "no device of node h200-0 of east is tainted", set()),
        ):
            assert do(fleet, "taint-devices", name="h200-0", value=value).startswith(said)
            await clock.sleep(2)
            slices = fleet.clusters.get("east").api.list("resource.k8s.io", "ResourceSlice")
            devices = [each for item in slices for each in item["spec"]["devices"] if "taints" in each]
            assert {each["name"] for each in devices} == tainted

    virtually(story)


def test_a_crashed_pod_comes_back():
    async def story(fleet, clock):
        (pod,) = fleet.pods("east")
        do(fleet, "slow-load", value="10")
        await clock.sleep(1)
        do(fleet, "crash-pod", name=f"{namespace_of(pod)}/{name_of(pod)}")
        await clock.sleep(5)
        assert fleet.endpoints() == {"west": 1}
        await clock.sleep(20)
        (again,) = fleet.pods("east")
        assert again["status"]["containerStatuses"][0]["restartCount"] == 1
        assert fleet.endpoints() == {"east": 1, "west": 1}

    virtually(story)


def test_engines_that_start_later_load_as_slowly_as_said():
    async def story(fleet, clock):
        do(fleet, "slow-load", value="90")
        (pod,) = fleet.pods("east")
        do(fleet, "crash-pod", name=f"{namespace_of(pod)}/{name_of(pod)}")
        await clock.sleep(80)
        assert fleet.endpoints() == {"west": 1}
        await clock.sleep(20)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        do(fleet, "slow-load", value="off")
        assert "annotations" not in fleet.get("InferenceCluster", "east")["metadata"] or not [
            key for key in fleet.get("InferenceCluster", "east")["metadata"]["annotations"] if "load" in key
        ]

    virtually(story)


def test_images_arrive_as_slowly_as_said():
    async def story(fleet, clock):
        assert "take 50 s to pull" in do(fleet, "slow-pull", value="50")
        (node,) = nodes_of(fleet)
        do(fleet, "drain-node", name=node)
        await clock.sleep(40)
        (pod,) = fleet.pods("east")
        assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await clock.sleep(20)
        assert fleet.endpoints() == {"east": 1, "west": 1}
        assert "take the usual time to pull" in do(fleet, "slow-pull", value="off")

    virtually(story)


def test_faults_reach_engines_that_run_and_those_that_start():
    async def story(fleet, clock):
        (pod,) = fleet.pods("east")
        name = name_of(pod)
        assert do(fleet, "faults", value="error_rate=0.5,stalled") == "every engine of east has error_rate=0.5,stalled."
        await clock.sleep(5)
        assert fleet.engines.faults == {f"east/{name}": Faults(error_rate=0.5, stalled=True)}
        do(fleet, "crash-pod", name=f"{namespace_of(pod)}/{name}")
        await clock.sleep(20)
        assert fleet.engines.shown[name]["metadata"]["annotations"][FAULTS] == "error_rate=0.5,stalled"
        do(fleet, "faults", name=f"{namespace_of(pod)}/{name}", value="hang_rate=1")
        await clock.sleep(5)
        assert fleet.engines.faults == {f"east/{name}": Faults(hang_rate=1)}
        do(fleet, "faults", name=f"{namespace_of(pod)}/{name}", value="off")
        assert do(fleet, "faults", value="off") == "every engine of east has no faults."
        await clock.sleep(5)
        assert fleet.engines.faults == {f"east/{name}": Faults()}

    virtually(story)


def test_what_a_cluster_shows_says_why():
    async def story(fleet, clock):
        (pod,) = fleet.pods("east")
        name = f"{namespace_of(pod)}/{name_of(pod)}"
        for _ in range(2):
            do(fleet, "crash-pod", name=name)
            await clock.sleep(5)
        shown = inventory(fleet.clusters, "east")
        assert shown["pods"] == [
            {
                "name": name,
                "node": text_at(pod, "spec", "nodeName"),
                "state": "Running",
                "restarts": "1",
                "why": "CrashLoopBackOff: crashed by annotation",
            }
        ]
        assert [entry["devices"] for entry in shown["nodes"]] == ["1 of 8 held", "0 of 8 held", ""]
        (warning,) = shown["warnings"]
        assert (warning["about"], warning["reason"], warning["times"]) == (f"Pod {name_of(pod)}", "BackOff", "1")
        for node in ("h200-0", "h200-1"):
            do(fleet, "drain-node", name=node)
        await clock.sleep(20)
        (waiting,) = inventory(fleet.clusters, "east")["pods"]
        assert waiting["why"].startswith("Unschedulable: 0/3 nodes are available")

    virtually(story)


def test_a_pool_that_is_out_of_stock_loses_what_ran_there():
    async def story(fleet, clock):
        do(fleet, "stock-out", name="h200", value="0")
        await clock.sleep(10)
        assert [entry["name"] for entry in inventory(fleet.clusters, "east")["nodes"]] == ["system-0"]
        assert fleet.endpoints()["east"] == 0
        do(fleet, "stock-out", name="h200", value="off")
        await clock.sleep(20)
        assert len(inventory(fleet.clusters, "east")["nodes"]) == 3
        assert fleet.endpoints().total() == 2

    virtually(story)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (SimCommand("dance", "east"), InputError, "'dance' is unknown; use one of fail-cluster"),
        (SimCommand("fail-cluster", "south"), NotFoundError, "InferenceCluster south not found"),
        (SimCommand("lose-node", "south", "n"), NotFoundError, "InferenceCluster south not found"),
        (SimCommand("lose-node", "east", "n"), NotFoundError, "cluster east has no node n"),
        (SimCommand("crash-pod", "east", "team/p"), NotFoundError, "cluster east has no pod team/p"),
        (SimCommand("slow-load", "east", value="soon"), InputError, "'soon' is not a number of seconds"),
        (SimCommand("slow-pull", "east", value="-1"), InputError, "'-1' is not a number of seconds"),
        (SimCommand("faults", "east", value="error_rate=2"), InputError, "not a list of faults: Expected `float`"),
        (SimCommand("faults", "east", value="nonsense"), InputError, "unknown field `nonsense`"),
        (SimCommand("faults", "east", "team/p", "stalled"), NotFoundError, "cluster east has no pod team/p"),
        (SimCommand("stock-out", "east", "b200", "0"), NotFoundError, "cluster east has no pool b200; it has h200"),
        (SimCommand("stock-out", "east", "h200", "few"), InputError, "'few' is not a number of nodes"),
        (SimCommand("quota", "east", value="much"), InputError, "'much' is not a number of devices"),
    ],
)
def test_what_cannot_be_done_is_said(ask, error, words):
    async def story(fleet, _clock):
        with pytest.raises(error, match=words):
            perform(fleet.clusters, ask)

    virtually(story)


def scheduled_by(fleet, kind, cluster="east"):
    declared = fleet.get("InferenceCluster", cluster)
    scheduling = {"type": kind, "queue": "team"}
    fleet.plane.replace({**declared, "spec": {**declared["spec"], "scheduling": scheduling}})


def test_a_quota_is_turned_and_put_back():
    async def story(fleet, clock):
        with pytest.raises(InputError, match=r"cluster east has no queue: its scheduler is none of KAI"):
            do(fleet, "quota", value="4")
        scheduled_by(fleet, "KAI")
        for value, expected in (("4", "a quota of 4 devices"), ("off", "all devices")):
            assert expected in do(fleet, "quota", value=value)
            await clock.sleep(1)

    virtually(story)


@pytest.mark.parametrize("scheduler", ["KAI", "Kueue", "Volcano"])
def test_a_quota_decides_what_is_placed(scheduler):
    async def story(fleet, clock):
        for name in ("east", "west"):
            scheduled_by(fleet, scheduler, name)
        await clock.sleep(20)
        for name in ("east", "west"):
            do(fleet, "quota", name, value="2")
        await clock.sleep(5)
        wanted = fleet.get("ModelDeployment", "qwen3-8b", "default")
        fleet.plane.replace({**wanted, "spec": {**wanted["spec"], "replicas": 6}})
        await clock.sleep(60)
        assert fleet.endpoints().total() == 4
        status = fleet.get("ModelDeployment", "qwen3-8b", "default")["status"]
        assert "the cluster's queue has 0 of 2 left" in condition_of({"status": status}, "Ready")["message"]
        do(fleet, "quota", "west", value="off")
        await clock.sleep(60)
        assert fleet.endpoints() == {"east": 2, "west": 4}

    virtually(story)


def test_every_verb_is_a_function_with_a_name_of_its_own():
    assert len(set(VERBS.values())) == len(VERBS)


def test_a_drained_node_evicts_the_copies_of_an_engine_one_after_the_other():
    async def story(fleet, clock):
        deployment = copy.deepcopy(fleet.get("ModelDeployment", "qwen3-8b", "default"))
        deployment["spec"]["workers"]["count"] = 2
        fleet.plane.replace(deployment)
        await clock.sleep(300)
        assert len(fleet.pods("east")) == 2
        said = [do(fleet, "drain-node", name=node) for node in sorted(nodes_of(fleet))]
        assert sum("1 pod is being deleted" in each for each in said) == 1
        assert said[-1].endswith("1 pod is kept by a PodDisruptionBudget for now: drain the node again.")

    virtually(story)
