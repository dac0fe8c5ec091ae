"""Queues of KAI and Volcano let no more run than they may, and say what is in use."""

import pytest

from modelplane.api.objects import manifest, text_at
from modelplane.compose.capacity import kai, volcano
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster


def kai_queue(name="team", *, parent=None, **gpu):
    spec = {"resources": {"gpu": gpu}, **({"parentQueue": parent} if parent else {})}
    return manifest("scheduling.run.ai/v2", "Queue", name, spec=spec)


def volcano_queue(**spec):
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", "team", spec=spec)


def pods_of(replicas, scheduler, priority=None):
    item = deployment("model", replicas)
    template = item["spec"]["template"]
    marks = {"scheduling.volcano.sh/queue-name": "team"}
    labels = {**template["metadata"]["labels"], "kai.scheduler/queue": "team"}
    template["metadata"] = {"labels": labels, "annotations": marks}
    spec = {**template["spec"], "schedulerName": scheduler}
    if priority:
        spec["priorityClassName"] = priority
    template["spec"] = spec
    return item


def running(lab):
    return sum(bool(text_at(pod, "spec", "nodeName")) for pod in lab.pods())


def messages(lab):
    return {condition_of(pod, "PodScheduled").get("message") for pod in lab.pods()} - {None}


def queue_of(lab, group):
    return next(item for item in lab.store.list(group, "Queue") if item["metadata"]["name"] == "team")


@pytest.mark.parametrize(
    ("case", "gpu", "priority", "expected"),
    [
        ("no end", {"quota": -1, "limit": -1}, None, 8),
        ("a quota and nothing beyond", {"quota": 4, "limit": 4}, None, 2),
        ("pods that cannot be preempted stay in the quota", {"quota": 4, "limit": -1}, None, 2),
        ("others may go beyond it", {"quota": 4, "limit": -1}, "train", 8),
        ("up to the limit", {"quota": 4, "limit": 10}, "train", 5),
        ("nothing is promised", {}, None, 0),
    ],
)
def test_kai(case, gpu, priority, expected):
    async def main(lab):
        lab.apply(claim_template(gpus=2), kai_queue(**gpu), pods_of(8, "kai-scheduler", priority))
        await lab.settle()
        return running(lab), kai.read(queue_of(lab, "scheduling.run.ai"))

    found, read = run_cluster(main, pools=[gpu_pool(nodes=2)])
    assert found == expected, case
    assert read.used == 2 * expected


def test_queues_above_count_as_well():
    async def main(lab):
        parent = kai_queue("all", quota=4, limit=4)
        lab.apply(
            claim_template(gpus=1), parent, kai_queue(parent="all", quota=-1, limit=-1), pods_of(8, "kai-scheduler")
        )
        await lab.settle()
        return running(lab), messages(lab)

    found, said = run_cluster(main, pools=[gpu_pool(nodes=1)])
    assert found == 4
    assert any("queue all has a limit of 4 devices, 4 are used and 1 more are requested" in message for message in said)


def test_what_waits_is_requested():
    async def main(lab):
        lab.apply(claim_template(gpus=2), kai_queue(quota=4, limit=4), pods_of(3, "kai-scheduler"))
        await lab.settle()
        return queue_of(lab, "scheduling.run.ai")["status"]

    assert run_cluster(main, pools=[gpu_pool()]) == {
        "allocated": {"nvidia.com/gpu": "4"},
        "requested": {"nvidia.com/gpu": "6"},
    }


def test_volcano_keeps_to_the_capability():
    async def main(lab):
        lab.apply(claim_template(gpus=2), volcano_queue(capability={"nvidia.com/gpu": 6}), pods_of(8, "volcano"))
        await lab.settle()
        return running(lab), volcano.read(queue_of(lab, "scheduling.volcano.sh"))

    found, read = run_cluster(main, pools=[gpu_pool(nodes=2)])
    assert (found, read.quota, read.used) == (3, 6, 6)


def test_a_closed_queue_schedules_nothing():
    async def main(lab):
        lab.apply(claim_template(gpus=2), volcano_queue(), pods_of(1, "volcano"))
        item = lab.get(volcano_queue())
        lab.store.replace_status({**item, "status": {"state": "Closed"}})
        await lab.settle()
        return running(lab), messages(lab)

    found, said = run_cluster(main, pools=[gpu_pool()])
    assert found == 0
    assert any("queue team is closed" in message for message in said)


def test_more_quota_lets_those_that_wait_in():
    async def main(lab):
        lab.apply(claim_template(gpus=2), kai_queue(quota=2, limit=2), pods_of(3, "kai-scheduler"))
        await lab.settle()
        before = running(lab)
        lab.apply(with_spec(lab.get(kai_queue()), resources={"gpu": {"quota": -1, "limit": -1}}))
        await lab.settle()
        return before, running(lab)

    assert run_cluster(main, pools=[gpu_pool()]) == (1, 3)
