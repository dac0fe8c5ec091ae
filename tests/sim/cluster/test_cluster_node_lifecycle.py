"""Nodes that fall unreachable, are cordoned or removed, and what becomes of their pods."""

import pytest

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import name_of
from modelplane.sim.cluster import ClusterSettings
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster

POOLS = [gpu_pool("h200", 2, gpus=4)]
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def ready(item):
    return next((c["status"] for c in item["status"]["conditions"] if c["type"] == "Ready"), "")


def placed(lab):
    return sorted((p["spec"].get("nodeName", ""), "deletionTimestamp" in p["metadata"], ready(p)) for p in lab.pods())


async def two_pods(lab):
    lab.apply(claim_template(gpus=4), deployment(replicas=2))
    await lab.settle()
    assert placed(lab) == [("h200-0", False, "True"), ("h200-1", False, "True")]


def node(lab, name):
    return next(item for item in lab.store.list("", "Node") if name_of(item) == name)


def test_a_lost_node_is_found_out_late_and_its_pods_are_evicted_later():
    async def main(lab):
        await two_pods(lab)
        lab.cluster.lose_node("h200-1")
        await lab.clock.sleep(49)
        before = ready(node(lab, "h200-1")), placed(lab), len(lab.engines.running)
        await lab.clock.sleep(2)
        unreachable = node(lab, "h200-1"), placed(lab)
        await lab.clock.sleep(298)
        still = placed(lab)
        await lab.clock.sleep(2)
        evicted = placed(lab)
        return before, unreachable, still, evicted

    before, (lost, unreachable), still, evicted = run_cluster(main, pools=POOLS)
    assert before == ("True", [("h200-0", False, "True"), ("h200-1", False, "True")], 1)
    assert lost["status"]["conditions"] == [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": "2025-06-15T15:07:31Z",
        }
    ]
    assert [(t["key"], t["effect"]) for t in lost["spec"]["taints"]] == [
        ("nvidia.com/gpu", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert unreachable == still == [("h200-0", False, "True"), ("h200-1", False, "False")]
    # The replacement has no devices to go to: those of the lost node belong to a pod that nobody has seen stop.
    assert evicted == [("", False, ""), ("h200-0", False, "True"), ("h200-1", True, "False")]


def test_a_node_that_comes_back_finishes_what_was_evicted():
    async def main(lab):
        await two_pods(lab)
        lab.cluster.lose_node("h200-1")
        await lab.clock.sleep(400)
        lab.cluster.restore_node("h200-1")
        await lab.settle()
        return placed(lab), node(lab, "h200-1")["spec"]["taints"], len(lab.engines.running)

    pods, taints, running = run_cluster(main, pools=POOLS)
    assert pods == [("h200-0", False, "True"), ("h200-1", False, "True")]
    assert taints == [GPU]
    assert running == 2


def test_a_short_silence_is_a_restart_and_nothing_else():
    async def main(lab):
        await two_pods(lab)
        names = [name_of(p) for p in lab.pods()]
        lab.cluster.lose_node("h200-1")
        await lab.clock.sleep(20)
        lab.cluster.restore_node("h200-1")
        await lab.settle()
        same = [name_of(p) for p in lab.pods()] == names
        restarts = sorted(p["status"]["containerStatuses"][0]["restartCount"] for p in lab.pods())
        return same, restarts, placed(lab)

    assert run_cluster(main, pools=POOLS) == (
        True,
        [0, 1],
        [("h200-0", False, "True"), ("h200-1", False, "True")],
    )


@pytest.mark.parametrize(
    ("toleration", "seconds", "gone"),
    [
        ({"tolerationSeconds": 5}, 60, True),
        ({"tolerationSeconds": 60}, 60, False),
        ({}, 10_000, False),
    ],
)
def test_a_pods_own_toleration_decides_when_it_is_evicted(toleration, seconds, gone):
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", **toleration}

    async def main(lab):
        made = deployment(claims=False, pool="h200")
        pod = made["spec"]["template"]["spec"]
        pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}, own]
        lab.apply(made)
        await lab.settle()
        (first,) = lab.pods()
        lab.cluster.lose_node(first["spec"]["nodeName"])
        await lab.clock.sleep(seconds)
        return "deletionTimestamp" in lab.get(first)["metadata"]

    assert run_cluster(main, pools=POOLS) is gone


def test_a_removed_node_takes_its_pods_with_it_and_they_are_replaced():
    async def main(lab):
        lab.apply(claim_template(gpus=2), deployment(replicas=4))
        await lab.settle()
        lab.cluster.set_pools([gpu_pool("h200", 1, gpus=4)])
        await lab.settle()
        unbound = [p["status"]["conditions"][-1]["message"] for p in lab.pods() if "nodeName" not in p["spec"]]
        return len(lab.pods()), len(lab.claims()), len(lab.engines.running), unbound

    pods, claims, running, unbound = run_cluster(main, pools=POOLS)
    assert (pods, claims, running) == (4, 4, 2)
    assert unbound == ["0/1 nodes are available: 1 cannot allocate all claims."] * 2


def test_a_cordoned_node_keeps_its_pods_and_gets_no_more():
    async def main(lab):
        lab.apply(claim_template(gpus=2), deployment(replicas=2))
        await lab.settle()
        lab.cluster.cordon_node("h200-1")
        lab.apply(deployment(replicas=4))
        await lab.settle()
        waiting = [p["status"]["conditions"][-1]["message"] for p in lab.pods() if "nodeName" not in p["spec"]]
        taints = [t["key"] for t in node(lab, "h200-1")["spec"]["taints"]]
        lab.cluster.cordon_node("h200-1", cordoned=False)
        await lab.settle()
        return waiting, taints, placed(lab)

    waiting, taints, pods = run_cluster(main, pools=POOLS)
    assert waiting == ["0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) were unschedulable."]
    assert taints == ["nvidia.com/gpu", "node.kubernetes.io/unschedulable"]
    assert [place for place, _, _ in pods] == ["h200-0", "h200-0", "h200-1", "h200-1"]


def test_grace_and_eviction_are_settings():
    async def main(lab):
        await two_pods(lab)
        lab.cluster.lose_node("h200-0")
        await lab.clock.sleep(4)
        return [deleting for place, deleting, _ in placed(lab) if place == "h200-0"]

    assert run_cluster(main, pools=POOLS, settings=ClusterSettings(node_grace_s=1, eviction_s=2)) == [True]


def test_a_node_that_is_not_there_cannot_be_lost():
    async def main(lab):
        with pytest.raises(NotFoundError, match="cluster east has no node h9"):
            lab.cluster.lose_node("h9")

    run_cluster(main)
