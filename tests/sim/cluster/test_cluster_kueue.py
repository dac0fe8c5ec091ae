"""Kueue admits by quota: one workload for each group of a LeaderWorkerSet, one for each pod of a Deployment."""

import pytest

from modelplane.api.objects import manifest, name_of, text_at, with_metadata
from modelplane.compose.admission_causes import queue_cause
from modelplane.compose.capacity import kueue as reading
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gpu_pool,
    leader_worker_set,
    run_cluster,
)

API = "kueue.x-k8s.io/v1beta2"
GATES = [{"name": "kueue.x-k8s.io/admission"}]
LOCAL = manifest(API, "LocalQueue", "gpus", namespace=TENANT_NAMESPACE, spec={"clusterQueue": "gpus"})
FLAVOR = manifest(API, "ResourceFlavor", "h200", spec={"nodeLabels": {"modelplane.ai/pool": "h200"}})


def cluster_queue(quota, **spec):
    flavors = [{"name": "h200", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": str(quota)}]}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    return manifest(API, "ClusterQueue", "gpus", spec={"namespaceSelector": {}, "resourceGroups": groups, **spec})


def gated_gang(replicas=2, size=4, name="gang", priority=None):
    item = leader_worker_set(name, replicas, size)
    template = dict(item["spec"]["leaderWorkerTemplate"])
    for part in ("leaderTemplate", "workerTemplate"):
        template[part] = with_spec(template[part], schedulingGates=GATES)
    labels = {"kueue.x-k8s.io/queue-name": "gpus"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    return with_metadata(with_spec(item, leaderWorkerTemplate=template), labels=labels)


def gated_deployment(replicas):
    item = with_metadata(deployment("model", replicas), labels={"kueue.x-k8s.io/queue-name": "gpus"})
    item["spec"]["template"]["spec"]["schedulingGates"] = GATES
    return item


def phases(lab):
    return {name_of(pod): condition_of(pod, "PodScheduled").get("reason", "bound") for pod in lab.pods()}


def workloads(lab):
    found = lab.store.list("kueue.x-k8s.io", "Workload")
    return [(condition_of(w, "Admitted").get("status"), condition_of(w, "QuotaReserved").get("message")) for w in found]


def in_cluster(story, nodes=8):
    return run_cluster(story, pools=[gpu_pool(nodes=nodes)])


def test_a_group_is_admitted_whole_or_stays_gated():
    """Two groups of four pods with four devices each, a quota of twenty: what the real one was seen to do."""

    async def main(lab):
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, cluster_queue(20), gated_gang())
        await lab.settle()
        return phases(lab), workloads(lab), lab.get(cluster_queue(20)), len(lab.engines.running)

    found, said, queue, engines = in_cluster(main)
    assert set(list(found.values())[:4]) == {"bound"}
    assert set(list(found.values())[4:]) == {"SchedulingGated"}
    lacking = "couldn't assign flavors: insufficient unused quota for nvidia.com/gpu in flavor h200, 12 more needed"
    assert said == [("True", "Quota reserved in ClusterQueue gpus"), (None, lacking)]
    assert engines == 1
    read = reading.read(queue)
    assert (read.quota, read.used, read.pending) == (20, 16, 1)


def test_flavors_say_where_pods_go():
    async def main(lab):
        flavor = with_spec(FLAVOR, tolerations=[{"key": "extra", "operator": "Exists"}])
        lab.apply(claim_template(gpus=4), flavor, LOCAL, cluster_queue(16), gated_gang(1, 1))
        await lab.settle()
        (pod,) = lab.pods()
        return pod["spec"]["nodeSelector"], pod["spec"]["tolerations"][-1], "schedulingGates" in pod["spec"]

    selector, toleration, gated = in_cluster(main)
    assert selector == {"modelplane.ai/pool": "h200"}
    assert (toleration["key"], gated) == ("extra", False)


def test_of_a_deployment_every_pod_is_admitted_by_itself():
    async def main(lab):
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, cluster_queue(10), gated_deployment(3))
        await lab.settle()
        early = sorted(phases(lab).values())
        lab.apply(with_spec(lab.get(gated_deployment(3)), replicas=1))
        await lab.settle()
        return early, sorted(phases(lab).values()), len(workloads(lab)), reading.read(lab.get(cluster_queue(10))).used

    assert in_cluster(main) == (["SchedulingGated", "bound", "bound"], ["bound"], 1, 4)


def test_quota_that_comes_free_lets_the_next_group_in():
    async def main(lab):
        lab.apply(
            claim_template(gpus=4), FLAVOR, LOCAL, cluster_queue(16), gated_gang(1, name="a"), gated_gang(1, name="b")
        )
        await lab.settle()
        before = {name for name, phase in phases(lab).items() if phase == "bound"}
        lab.store.delete(ref_of(leader_worker_set("a")))
        await lab.settle()
        return before, {name for name, phase in phases(lab).items() if phase == "bound"}

    before, after = in_cluster(main)
    assert before == {"a-0", "a-0-1", "a-0-2", "a-0-3"}
    assert after == {"b-0", "b-0-1", "b-0-2", "b-0-3"}


def test_pods_of_an_admitted_group_that_come_again_pass_at_once():
    async def main(lab):
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, cluster_queue(16), gated_gang(1))
        await lab.settle()
        lab.store.delete(ObjectRef("", "Pod", TENANT_NAMESPACE, "gang-0-2"))
        await lab.settle()
        return set(phases(lab).values()), len(lab.engines.running)

    assert in_cluster(main) == ({"bound"}, 1)


def test_higher_priority_goes_first():
    async def main(lab):
        important = manifest(API, "WorkloadPriorityClass", "high", value=1000)
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, important)
        lab.apply(gated_gang(1, name="a"), gated_gang(1, name="b", priority="high"))
        lab.apply(cluster_queue(16))
        await lab.settle()
        return {name for name, phase in phases(lab).items() if phase == "bound"}

    assert in_cluster(main) == {"b-0", "b-0-1", "b-0-2", "b-0-3"}


@pytest.mark.parametrize(("strategy", "admitted"), [("BestEffortFIFO", {"b-0"}), ("StrictFIFO", set())])
def test_whether_one_that_does_not_fit_holds_up_the_others(strategy, admitted):
    async def main(lab):
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, gated_gang(1, 2, name="a"))
        await lab.clock.sleep(5)
        lab.apply(gated_gang(1, 1, name="b"), cluster_queue(4, queueingStrategy=strategy))
        await lab.settle()
        return {name for name, phase in phases(lab).items() if phase == "bound"}

    assert in_cluster(main) == admitted


@pytest.mark.parametrize(
    ("case", "objects", "message"),
    [
        ("no local queue", [FLAVOR, cluster_queue(16)], "LocalQueue gpus doesn't exist"),
        ("no flavor", [LOCAL, cluster_queue(16)], "ClusterQueue gpus is inactive: ResourceFlavor h200 doesn't exist"),
        (
            "stopped",
            [LOCAL, FLAVOR, cluster_queue(16, stopPolicy="Hold")],
            "ClusterQueue gpus is inactive: it is stopped",
        ),
        (
            "no namespace is selected",
            [LOCAL, FLAVOR, cluster_queue(16, namespaceSelector=None)],
            "Workload namespace doesn't match ClusterQueue selector",
        ),
        (
            "a resource that it does not cover",
            [LOCAL, FLAVOR, cluster_queue(16, resourceGroups=[])],
            "resource nvidia.com/gpu unavailable in ClusterQueue",
        ),
    ],
)
def test_what_is_not_admitted_says_why(case, objects, message):
    async def main(lab):
        lab.apply(claim_template(gpus=4), *objects, gated_gang(1, 1))
        await lab.settle()
        return workloads(lab), set(phases(lab).values())

    assert in_cluster(main) == ([(None, message)], {"SchedulingGated"}), case


def test_without_kueue_gates_stay():
    async def main(lab):
        lab.apply(claim_template(gpus=4), gated_gang(1, 1))
        await lab.settle()
        return set(phases(lab).values()), workloads(lab)

    assert in_cluster(main) == ({"SchedulingGated"}, [])


OTHER = {**cluster_queue(16), "metadata": {"name": "other"}}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([FLAVOR, OTHER], "ClusterQueueDoesNotExist"),
        ([cluster_queue(16)], "ClusterQueueIsInactive"),
        ([FLAVOR, cluster_queue(16)], "Ready"),
    ],
)
def test_a_local_queue_says_whether_it_is_active(objects, reason):
    async def main(lab):
        lab.apply(claim_template(gpus=4), LOCAL, *objects, gated_gang(1, 1))
        await lab.settle()
        return queue_cause(lab.get(LOCAL)), text_at(lab.get(LOCAL)["status"]["conditions"][0], "reason")

    cause, said = in_cluster(main)
    assert said == reason
    assert (cause is None) == (reason == "Ready")
    assert cause is None or f"of ClusterQueue gpus is not active: {reason}: " in cause.message


def test_local_queues_say_what_is_theirs():
    async def main(lab):
        lab.apply(claim_template(gpus=4), FLAVOR, LOCAL, cluster_queue(20), gated_gang())
        await lab.settle()
        return reading.read(lab.get(LOCAL)), text_at(lab.get(LOCAL)["status"]["conditions"][0], "status")

    read, active = in_cluster(main)
    assert (read.name, read.used, read.pending, active) == ("team/gpus", 16, 1, "True")
