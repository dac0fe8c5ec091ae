"""Deployments and their ReplicaSets, from creation over rollouts to nothing."""

import pytest

from modelplane.api.objects import name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.deployments import bounds_of, template_hash
from modelplane.sim.cluster.objects import condition_is
from modelplane.sim.cluster.rollout import RolloutBounds
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster

START = "2025-06-15T15:06:40Z"
POOLS = [gpu_pool("h200", 1)]


def sets(lab):
    return lab.store.list("apps", "ReplicaSet")


def status(lab, name="model"):
    return lab.get(deployment(name))["status"]


def progressing(found):
    return next(c["reason"] for c in found["conditions"] if c["type"] == "Progressing")


def test_a_replica_set_for_the_template():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        (found,) = sets(lab)
        return lab.get(deployment()), found, lab.pods()

    made, found, pods = run_cluster(main, pools=POOLS)
    digest = template_hash(made)
    labels = {"app": "model", "pod-template-hash": digest}
    template = made["spec"]["template"]
    assert {k: v for k, v in found["metadata"].items() if k not in {"uid", "resourceVersion"}} == {
        "name": f"model-{digest}",
        "namespace": "team",
        "generation": 1,
        "creationTimestamp": START,
        "labels": labels,
        "annotations": {
            "deployment.kubernetes.io/desired-replicas": "2",
            "deployment.kubernetes.io/max-replicas": "3",
            "deployment.kubernetes.io/revision": "1",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "model",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert found["spec"] == {
        "replicas": 2,
        "minReadySeconds": 0,
        "selector": {"matchLabels": labels},
        "template": {**template, "metadata": {"labels": labels}},
    }
    for pod in pods:
        assert pod["metadata"]["labels"] == labels
        assert pod["metadata"]["generateName"] == f"{name_of(found)}-"
        assert {k: v for k, v in pod["spec"].items() if k != "nodeName"} == template["spec"]


def test_the_status_of_a_deployment_that_is_complete():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        return status(lab), name_of(sets(lab)[0])

    found, name = run_cluster(main, pools=POOLS)
    assert found == {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
                "lastUpdateTime": "2025-06-15T15:06:41Z",
                "lastTransitionTime": "2025-06-15T15:06:41Z",
            },
            {
                "type": "Progressing",
                "status": "True",
                "reason": "NewReplicaSetAvailable",
                "message": f'ReplicaSet "{name}" has successfully progressed.',
                "lastUpdateTime": "2025-06-15T15:06:41Z",
                "lastTransitionTime": START,
            },
        ],
    }


def test_scaling_keeps_the_replica_set_and_leaves_nothing_behind():
    async def main(lab):
        seen = []
        lab.apply(claim_template(), deployment(replicas=0))
        for size in (0, 8, 3, 0):
            lab.apply(deployment(replicas=size))
            await lab.settle()
            found = status(lab)
            counts = len(lab.pods()), len(lab.claims()), len(lab.engines.running), found.get("availableReplicas", 0)
            seen.append((size, *counts, len(sets(lab))))
        return seen

    assert run_cluster(main, pools=POOLS) == [
        (0, 0, 0, 0, 0, 1),
        (8, 8, 8, 8, 8, 1),
        (3, 3, 3, 3, 3, 1),
        (0, 0, 0, 0, 0, 1),
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("replicas", "nodes"), [(8, 1), (8, 2), (4, 1), (1, 1)])
def test_a_rolling_update_never_drops_below_its_bound(replicas, nodes, seed):
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=replicas))
        await lab.settle()
        wanted = bounds_of(deployment(replicas=replicas))
        lows, highs = [], []

        def watch(change):
            if change.ref.kind == "Pod":
                live = [pod for pod in lab.pods() if "deletionTimestamp" not in pod["metadata"]]
                lows.append(sum(condition_is(pod, "Ready") for pod in live))
                highs.append(len(live))

        lab.store.subscribe(watch)
        lab.apply(deployment(replicas=replicas, image="vllm/vllm-openai:v2"))
        await lab.settle()
        images = {pod["spec"]["containers"][0]["image"] for pod in lab.pods()}
        sizes = sorted(item["spec"]["replicas"] for item in sets(lab))
        return wanted, min(lows), max(highs), images, sizes, progressing(status(lab))

    wanted, low, high, images, sizes, progress = run_cluster(main, pools=[gpu_pool("h200", nodes)], seed=seed)
    assert low >= wanted.least_available
    assert high <= wanted.most
    assert images == {"vllm/vllm-openai:v2"}
    assert sizes == [0, replicas]
    assert progress == "NewReplicaSetAvailable"


def test_one_replica_cannot_roll_where_there_is_no_room_for_a_second():
    async def main(lab):
        lab.apply(claim_template(gpus=8), deployment())
        await lab.settle()
        lab.apply(deployment(image="vllm/vllm-openai:v2"))
        await lab.settle()
        early = progressing(status(lab))
        await lab.clock.sleep(700)
        found = status(lab)
        return early, found, len(lab.engines.running)

    early, late, running = run_cluster(main, pools=POOLS)
    assert early == "ReplicaSetUpdated"
    assert progressing(late) == "ProgressDeadlineExceeded"
    assert (late["replicas"], late["updatedReplicas"], late["availableReplicas"], running) == (2, 1, 1, 1)


def test_recreate_waits_until_the_old_pods_are_gone():
    async def main(lab):
        lab.engines.stop_s = 5.0
        lab.apply(claim_template(gpus=8), deployment(strategy={"type": "Recreate"}))
        await lab.settle()
        together = []
        lab.store.subscribe(lambda change: change.ref.kind == "Pod" and together.append(len(lab.pods())))
        lab.apply(deployment(strategy={"type": "Recreate"}, image="vllm/vllm-openai:v2"))
        await lab.settle()
        (pod,) = lab.pods()
        return max(together), pod["spec"]["containers"][0]["image"], progressing(status(lab))

    assert run_cluster(main, pools=POOLS) == (1, "vllm/vllm-openai:v2", "NewReplicaSetAvailable")


def test_a_return_to_an_earlier_template_uses_its_replica_set_again():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        for image in ("v2", "v1"):
            lab.apply(deployment(replicas=2, image=f"vllm/vllm-openai:{image}"))
            await lab.settle()
        return {
            item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: item["spec"]["replicas"]
            for item in sets(lab)
        }

    assert run_cluster(main, pools=POOLS) == {"2": 0, "3": 2}


def test_only_so_many_old_revisions_are_kept():
    async def main(lab):
        for number in range(5):
            lab.apply(deployment(replicas=0, claims=False, image=f"x:{number}", revisionHistoryLimit=2))
            await lab.settle()
        return sorted(item["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for item in sets(lab))

    assert run_cluster(main, pools=POOLS) == ["3", "4", "5"]


def test_a_paused_deployment_scales_and_does_not_roll():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        lab.apply(deployment(replicas=4, paused=True, image="vllm/vllm-openai:v2"))
        await lab.settle()
        paused = {pod["spec"]["containers"][0]["image"] for pod in lab.pods()}, len(lab.pods())
        lab.apply(deployment(replicas=4, image="vllm/vllm-openai:v2"))
        await lab.settle()
        return paused, {pod["spec"]["containers"][0]["image"] for pod in lab.pods()}, len(lab.pods())

    assert run_cluster(main, pools=POOLS) == (({"vllm/vllm-openai:v1"}, 4), {"vllm/vllm-openai:v2"}, 4)


def test_resizing_in_the_middle_of_a_rollout_ends_with_the_new_size():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=4))
        await lab.settle()
        lab.apply(deployment(replicas=4, image="vllm/vllm-openai:v2"))
        await lab.clock.sleep(0.1)
        lab.apply(deployment(replicas=7, image="vllm/vllm-openai:v2"))
        await lab.settle()
        return status(lab)["availableReplicas"], {pod["spec"]["containers"][0]["image"] for pod in lab.pods()}

    assert run_cluster(main, pools=[gpu_pool("h200", 2)]) == (7, {"vllm/vllm-openai:v2"})


def test_pods_count_as_available_after_min_ready_seconds():
    async def main(lab):
        lab.apply(claim_template(), deployment(minReadySeconds=30))
        await lab.clock.sleep(10)
        early = status(lab)
        await lab.clock.sleep(30)
        late = status(lab)
        return [(found.get("readyReplicas"), found.get("availableReplicas")) for found in (early, late)]

    assert run_cluster(main, pools=POOLS) == [(1, None), (1, 1)]


def test_a_deleted_deployment_takes_everything_with_it():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=3))
        await lab.settle()
        lab.store.delete(ref_of(deployment()))
        await lab.settle()
        return sets(lab), lab.pods(), lab.claims(), lab.engines.running

    assert run_cluster(main, pools=POOLS) == ((), (), (), {})


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, RolloutBounds(replicas=10, surge=3, unavailable=2)),
        ({"type": "Recreate"}, RolloutBounds(replicas=10, surge=0, unavailable=0, recreate=True)),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, RolloutBounds(replicas=10, surge=0, unavailable=1)),
    ],
)
def test_bounds_are_read_from_the_strategy(strategy, expected):
    assert bounds_of(deployment(replicas=10, strategy=strategy)) == expected


def test_the_hash_depends_on_the_template_alone():
    assert template_hash(deployment("a", 1, claims=False)) != template_hash(deployment("b", 1, claims=False))
    assert template_hash(deployment(replicas=1)) == template_hash(deployment(replicas=5, paused=True))
    assert template_hash(deployment()) != template_hash(deployment(image="other"))
