"""Gangs start whole or not at all under the schedulers that know them; kube-scheduler leaves them half placed."""

import pytest

from modelplane.api.objects import manifest, name_of, text_at, with_metadata
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.gangs import gang_of, group_ref, own_queue, queue_of
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gpu_pool,
    leader_worker_set,
    run_cluster,
)

CLAIMS = claim_template(gpus=4)
KAI_QUEUE = manifest("scheduling.run.ai/v2", "Queue", "team", spec={"resources": {"gpu": {"quota": -1, "limit": -1}}})
VOLCANO_QUEUE = manifest("scheduling.volcano.sh/v1beta1", "Queue", "team", spec={"weight": 1})


def scheduled_by(item, scheduler, *, labels=None, annotations=None):
    """The LeaderWorkerSet with its pods under that scheduler."""
    template = dict(item["spec"]["leaderWorkerTemplate"])
    for part in ("leaderTemplate", "workerTemplate"):
        marked = with_spec(template[part], schedulerName=scheduler)
        known = marked.get("metadata", {})
        template[part] = {
            **marked,
            "metadata": {"labels": {**known.get("labels", {}), **(labels or {})}, "annotations": annotations or {}},
        }
    return with_spec(item, leaderWorkerTemplate=template)


def kai(item):
    labels = {"kai.scheduler/queue": "team"}
    return with_metadata(scheduled_by(item, "kai-scheduler", labels=labels), labels=labels)


def volcano(item, group="gang"):
    marks = {"scheduling.volcano.sh/queue-name": "team", "scheduling.k8s.io/group-name": group}
    return scheduled_by(item, "volcano", annotations=marks)


def pod_group(least, name="gang"):
    api = "scheduling.volcano.sh/v1beta1"
    return manifest(api, "PodGroup", name, namespace=TENANT_NAMESPACE, spec={"minMember": least, "queue": "team"})


def bound(lab):
    return {name_of(pod): text_at(pod, "spec", "nodeName") for pod in lab.pods()}


def reasons(lab):
    return {name_of(pod): condition_of(pod, "PodScheduled").get("message") for pod in lab.pods()}


def in_cluster(story, nodes):
    return run_cluster(story, pools=[gpu_pool(nodes=nodes)])


def test_kube_scheduler_leaves_a_gang_half_placed():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=4))
        await lab.settle()
        return sorted(map(bool, bound(lab).values()))

    assert in_cluster(main, nodes=1) == [False, False, True, True]


def test_kai_starts_groups_whole_and_leaves_the_last_wholly_pending():
    """Room for two groups and a half."""

    async def main(lab):
        lab.apply(CLAIMS, KAI_QUEUE, kai(leader_worker_set(replicas=3, size=4)))
        await lab.settle()
        groups = lab.store.list("scheduling.run.ai", "PodGroup")
        return bound(lab), reasons(lab), groups, len(lab.engines.running)

    placed, why, groups, engines = in_cluster(main, nodes=5)
    assert [bool(node) for node in placed.values()] == [True] * 8 + [False] * 4
    expected = "Resources were found for 2 pods while 4 are required for gang scheduling. "
    assert why["gang-2"].startswith(expected)
    assert [group["spec"]["minMember"] for group in groups] == [4, 4, 4]
    assert [name_of(group).rpartition("-")[2] for group in groups] == ["0", "1", "2"]
    assert [bool(group["status"].get("schedulingConditions")) for group in groups] == [False, False, True]
    assert engines == 2


def test_a_gang_starts_when_there_is_room_and_holds_nothing_before():
    async def main(lab):
        lab.apply(CLAIMS, KAI_QUEUE, kai(leader_worker_set(size=4)))
        await lab.settle()
        before = sum(bool(node) for node in bound(lab).values())
        held = [claim for claim in lab.claims() if claim.get("status", {}).get("allocation")]
        lab.apply(deployment("model", 2))
        await lab.settle()
        others = sum(name.startswith("model") and bool(node) for name, node in bound(lab).items())
        lab.cluster.set_pools([gpu_pool(nodes=4)])
        await lab.settle()
        return before, held, others, sum(name.startswith("gang") and bool(node) for name, node in bound(lab).items())

    assert in_cluster(main, nodes=1) == (0, [], 2, 4)


def test_kai_fills_one_node_after_the_other():
    async def main(lab):
        lab.apply(CLAIMS, KAI_QUEUE, kai(leader_worker_set(size=4)))
        await lab.settle()
        return sorted(bound(lab).values())

    assert in_cluster(main, nodes=4) == ["h200-0", "h200-0", "h200-1", "h200-1"]


def test_without_its_queue_nothing_of_kai_is_scheduled():
    async def main(lab):
        lab.apply(CLAIMS, kai(leader_worker_set(size=2)))
        await lab.settle()
        early = reasons(lab)["gang-0"]
        lab.apply(KAI_QUEUE)
        await lab.settle()
        return early, all(bound(lab).values())

    early, late = in_cluster(main, nodes=1)
    assert early.endswith("Queue 'team' does not exist")
    assert late


def test_pods_may_bring_their_own_pod_group():
    async def main(lab):
        marks = {"pod-group-name": "ours", "kai.scheduler/skip-podgrouper": "true"}
        lab.apply(
            CLAIMS, scheduled_by(leader_worker_set(replicas=2, size=2), "kai-scheduler", annotations=marks), KAI_QUEUE
        )
        await lab.settle()
        early = reasons(lab)["gang-0"]
        spec = {"minMember": 4, "queue": "team"}
        lab.apply(manifest("scheduling.run.ai/v2alpha2", "PodGroup", "ours", namespace=TENANT_NAMESPACE, spec=spec))
        await lab.settle()
        partly = reasons(lab)["gang-0"], any(bound(lab).values())
        lab.cluster.set_pools([gpu_pool(nodes=2)])
        await lab.settle()
        return early, partly, all(bound(lab).values()), len(lab.store.list("scheduling.run.ai", "PodGroup"))

    early, (why, any_bound), late, groups = in_cluster(main, nodes=1)
    assert early == "PodGroup ours does not exist"
    assert (why.startswith("Resources were found for 2 pods while 4 are required"), any_bound) == (True, False)
    assert (late, groups) == (True, 1)


def test_a_deployment_under_kai_is_no_gang():
    async def main(lab):
        item = deployment("model", 3)
        item["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
        item["spec"]["template"]["metadata"]["labels"]["kai.scheduler/queue"] = "team"
        lab.apply(CLAIMS, KAI_QUEUE, item)
        await lab.settle()
        groups = lab.store.list("scheduling.run.ai", "PodGroup")
        return sorted(map(bool, bound(lab).values())), [group["spec"]["minMember"] for group in groups]

    assert in_cluster(main, nodes=1) == ([False, True, True], [1, 1, 1])


def test_under_leader_ready_the_leader_goes_first():
    async def main(lab):
        lab.apply(CLAIMS, KAI_QUEUE, kai(leader_worker_set(size=3, startupPolicy="LeaderReady")))
        await lab.settle()
        (group,) = lab.store.list("scheduling.run.ai", "PodGroup")
        return bound(lab), group["spec"]["minMember"]

    placed, least = in_cluster(main, nodes=2)
    assert (list(placed), least) == (["gang-0"], 3)


@pytest.mark.parametrize(("nodes", "whole"), [(1, False), (2, True)])
def test_volcano_starts_a_pod_group_whole_or_not_at_all(nodes, whole):
    async def main(lab):
        lab.apply(CLAIMS, VOLCANO_QUEUE, pod_group(4), volcano(leader_worker_set(replicas=2, size=2)))
        await lab.settle()
        (group,) = lab.store.list("scheduling.volcano.sh", "PodGroup")
        (queue,) = lab.store.list("scheduling.volcano.sh", "Queue")
        status = group["status"]
        said = status["phase"], [condition["type"] for condition in status["conditions"]]
        return {bool(node) for node in bound(lab).values()}, said, queue["status"]

    placed, said, queue = in_cluster(main, nodes)
    assert placed == {whole}
    assert said == (("Running", ["Scheduled"]) if whole else ("Inqueue", ["Unschedulable"]))
    assert queue == {"state": "Open", "allocated": {"deviceclass/gpu.nvidia.com": "16"} if whole else {}}


def test_volcano_makes_a_group_of_one_for_pods_that_name_none():
    async def main(lab):
        item = deployment("model", 3)
        item["spec"]["template"]["spec"]["schedulerName"] = "volcano"
        lab.apply(CLAIMS, item)
        await lab.settle()
        groups = lab.store.list("scheduling.volcano.sh", "PodGroup")
        return sorted(map(bool, bound(lab).values())), [group["spec"] for group in groups]

    assert in_cluster(main, nodes=1) == ([False, True, True], [{"minMember": 1}])


def test_groups_that_the_scheduler_made_go_with_their_owner():
    async def main(lab):
        lab.apply(CLAIMS, KAI_QUEUE, kai(leader_worker_set(replicas=2, size=2)))
        await lab.settle()
        lab.store.delete(ref_of(leader_worker_set()))
        await lab.settle()
        (queue,) = lab.store.list("scheduling.run.ai", "Queue")
        return lab.store.list("scheduling.run.ai", "PodGroup"), queue["status"]

    assert in_cluster(main, nodes=2) == ((), {"allocated": {}, "requested": {}})


def test_who_is_in_which_group():
    pod = {"metadata": {"name": "p", "namespace": "team", "labels": {"runai/queue": "old"}}, "spec": {}}

    class Empty:
        def get(self, _ref):
            return None

    assert (gang_of(pod, Empty()), queue_of(pod, Empty()), group_ref(pod)) == (None, None, None)
    assert own_queue(pod) == "old"
    under_kai = with_spec(pod, schedulerName="kai-scheduler")
    assert gang_of(under_kai, Empty()).found is False
    assert queue_of(under_kai, Empty()) == ObjectRef("scheduling.run.ai", "Queue", "", "old")
    plain = with_spec({"metadata": {"name": "p", "namespace": "team"}, "spec": {}}, schedulerName="volcano")
    assert queue_of(plain, Empty()) == ObjectRef("scheduling.volcano.sh", "Queue", "", "default")


@pytest.mark.parametrize(("scheduler", "left"), [("kube", 1), ("kai", 0)])
def test_an_engine_that_lost_a_worker_starts_again_with_its_whole_group(scheduler, left):
    async def main(lab):
        made = leader_worker_set(size=2)
        lab.apply(KAI_QUEUE, claim_template(gpus=8), kai(made) if scheduler == "kai" else made)
        await lab.settle()
        engines = [len(lab.engines.running)]
        lab.cluster.set_pools([gpu_pool(nodes=1)])
        await lab.clock.sleep(600)
        placed = list(filter(None, bound(lab).values()))
        engines.append(len(lab.engines.running))
        lab.cluster.set_pools([gpu_pool(nodes=2)])
        await lab.settle()
        return [*engines, len(lab.engines.running)], len(placed)

    assert in_cluster(main, 2) == ([1, 0, 1], left)


def test_an_engine_is_gone_with_the_machine_of_a_worker():
    async def main(lab):
        lab.apply(claim_template(gpus=8), leader_worker_set(size=2))
        await lab.settle()
        lab.cluster.lose_node(bound(lab)["gang-0-1"])
        await lab.clock.sleep(1)
        return len(lab.engines.running)

    assert in_cluster(main, 2) == 0
