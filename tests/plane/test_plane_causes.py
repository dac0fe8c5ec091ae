"""What goes wrong with a pod or a cluster is what its replica, its deployment and their events say, in virtual time."""

from collections import Counter
from pathlib import Path

import yaml

from modelplane.api.objects import GROUP, int_at, text_at
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def quickstart():
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in quickstart():
                if manifest["kind"] == "ModelDeployment":
                    await clock.sleep(5)
                fleet.plane.create(manifest)
            await story(fleet, clock)

    run_virtual(main)


def deployment(fleet):
    return fleet.get("ModelDeployment", "qwen3-8b", "default")


def reasons(fleet):
    """Of the deployment, and of each replica by its cluster."""
    replicas = {
        text_at(item, "spec", "clusterName"): text_at(item, "status", "reason")
        for item in fleet.plane.list(GROUP, "ModelReplica")
    }
    return text_at(deployment(fleet), "status", "reason"), replicas


def warnings(fleet, kind):
    """The most that one object of a kind was warned of each reason."""
    found = Counter()
    for event in fleet.plane.list("", "Event"):
        if text_at(event, "involvedObject", "kind") == kind and text_at(event, "type") == "Warning":
            found[text_at(event, "involvedObject", "name"), text_at(event, "reason")] += int_at(event, "count")
    return {reason: max(count for (_, other), count in found.items() if other == reason) for _, reason in found}


def test_a_start_goes_through_its_stages_and_warns_of_nothing():
    async def story(fleet, clock):
        fleet.engines.start_s = 20.0
        seen = []
        for _ in range(80):
            await clock.sleep(0.5)
            if not seen or seen[-1] != reasons(fleet)[0]:
                seen.append(reasons(fleet)[0])
        assert seen[-2:] == ["LoadingWeights", "AllReady"]
        assert reasons(fleet)[1] == {"east": "Serving", "west": "Serving"}
        assert warnings(fleet, "ModelReplica") == warnings(fleet, "ModelDeployment") == {}
        assert "notReady" not in deployment(fleet)["status"]

    virtually(story)


def test_a_lost_cluster_is_told_with_the_time_of_the_replacement():
    async def story(fleet, clock):
        await clock.sleep(20)
        fleet.clusters.fail("east")
        await clock.sleep(10)
        assert reasons(fleet) == ("ClusterLost", {"east": "ClusterLost", "west": "Serving"})
        (group,) = deployment(fleet)["status"]["notReady"]
        times = f"at {group['since']}; replaced at {group['replacedAt']}"
        assert condition_of(deployment(fleet), "ReplicasReady")["message"] == (
            f"1 of 2 replicas serve; 1 of 2 lost with cluster east {times}"
        )
        lost = condition_of(fleet.get("InferenceCluster", "east"), "ClusterReady")
        assert (lost["status"], lost["reason"], lost["lastTransitionTime"]) == ("False", "ClusterLost", group["since"])
        await clock.sleep(60)
        assert warnings(fleet, "InferenceCluster") == warnings(fleet, "ModelReplica") == {"ClusterLost": 1}
        assert warnings(fleet, "ModelDeployment") == {"ClusterLost": 1}
        fleet.clusters.recover("east")
        await clock.sleep(30)
        assert reasons(fleet) == ("AllReady", {"east": "Serving", "west": "Serving"})

    virtually(story)


def test_an_engine_that_crashes_says_its_last_line_and_warns_once():
    async def story(fleet, clock):
        fleet.engines.refuses = lambda _pod: "loading\nvllm: error: unrecognized arguments: --no-such-flag"
        await clock.sleep(600)
        assert reasons(fleet) == ("CrashLooping", {"east": "CrashLooping", "west": "CrashLooping"})
        first, second = deployment(fleet)["status"]["notReady"]
        assert (first["cluster"], second["cluster"]) == ("east", "west")
        assert first["message"].endswith("vllm: error: unrecognized arguments: --no-such-flag")
        assert warnings(fleet, "ModelReplica") == {"CrashLooping": 1}
        assert warnings(fleet, "ModelDeployment") == {"CrashLooping": 1}
        passes, asleep = fleet.controller.loop.stats().passes, 1_800
        await clock.sleep(asleep)
        assert fleet.controller.loop.stats().passes - passes < 40, "each back-off enqueues its replica"

    virtually(story)


def test_pods_that_no_node_takes_say_so_in_the_words_of_the_scheduler():
    async def story(fleet, clock):
        await clock.sleep(20)
        east = fleet.controller._store_of_cluster("east")
        for node in east.list("", "Node"):
            east.replace({**node, "spec": {**node.get("spec", {}), "unschedulable": True}})
        for pod in east.list("", "Pod"):
            east.delete(ref_of(pod))
        await clock.sleep(60)
        _, replicas = reasons(fleet)
        assert replicas["west"] == "Serving"
        assert replicas["east"] in {"Unschedulable", "ClaimPending"}
        (found,) = deployment(fleet)["status"]["notReady"]
        assert found["message"].startswith("1 of 1 pod: 0/")
        assert warnings(fleet, "ModelReplica")[replicas["east"]] == 1

    virtually(story)


def test_pods_behind_the_gate_of_a_queue_say_what_the_queue_does():
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in quickstart():
                if manifest["kind"] == "InferenceCluster":
                    manifest["spec"]["scheduling"] = {"type": "Kueue", "queue": "serving"}
                if manifest["kind"] == "ModelDeployment":
                    fleet.clusters._note_namespace("default")  # its queues are made now and not again
                    await clock.sleep(5)
                    for name in ("east", "west"):
                        store = fleet.controller._store_of_cluster(name)
                        store.delete(ref_of(store.list("kueue.x-k8s.io", "ClusterQueue")[0]))
                        store.create({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", **OTHER_QUEUE})
                fleet.plane.create(manifest)
            await clock.sleep(30)
            assert reasons(fleet) == ("QueueMissing", {"east": "QueueMissing", "west": "QueueMissing"})
            message = "Kueue: ClusterQueue serving doesn't exist"
            assert [group["message"] for group in deployment(fleet)["status"]["notReady"]] == [message] * 2

    run_virtual(main)


OTHER_QUEUE = {"metadata": {"name": "other"}, "spec": {"namespaceSelector": {}}}


def test_a_deployment_that_fits_nowhere_warns_once():
    async def story(fleet, clock):
        await clock.sleep(20)
        made = deployment(fleet)
        wanted = {**made["spec"]["nodeSelector"]["devices"][0], "count": 99}
        spec = {**made["spec"], "nodeSelector": {"devices": [wanted]}}
        fleet.plane.create(
            {
                "apiVersion": made["apiVersion"],
                "kind": "ModelDeployment",
                "metadata": {"name": "large", "namespace": "default"},
                "spec": spec,
            }
        )
        await clock.sleep(100)
        large = fleet.get("ModelDeployment", "large", "default")
        assert text_at(large, "status", "reason") == "FitsNowhere"
        assert "fit nowhere" in large["status"]["placement"]["summary"]
        assert warnings(fleet, "ModelDeployment") == {"FitsNowhere": 1}

    virtually(story)
