"""Groups start, serve, break and roll out as the real LeaderWorkerSet does it."""

import pytest

from modelplane.api.objects import labels_of, name_of, text_at, uid_of
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.lws import has_restarted, revision_of
from modelplane.sim.cluster.objects import condition_is, with_spec
from modelplane.testing.cluster import claim_template, gpu_pool, leader_worker_set, run_cluster, service

CLAIMS = claim_template(gpus=4)
TEAM = "team"


def names(lab):
    return [name_of(pod) for pod in lab.pods()]


def uids(lab, *wanted):
    return [uid_of(lab.store.get(ObjectRef("", "Pod", TEAM, name))) for name in wanted]


def conditions(lab, **spec):
    found = lab.get(leader_worker_set(**spec))["status"].get("conditions", ())
    return {entry["type"]: entry["status"] for entry in found}


def in_cluster(story, nodes=4, settings=None):
    return run_cluster(story, pools=[gpu_pool(nodes=nodes)], settings=settings)


def test_groups_come_up_and_only_leaders_serve():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(replicas=2, size=3))
        await lab.settle()
        status = lab.get(leader_worker_set())["status"]
        counts = status["replicas"], status["readyReplicas"], status["updatedReplicas"], status["observedGeneration"]
        return names(lab), counts, conditions(lab), sorted(lab.engines.running.values())

    found, counts, said, engines = in_cluster(main)
    assert found == ["gang-0", "gang-0-1", "gang-0-2", "gang-1", "gang-1-1", "gang-1-2"]
    assert counts == (2, 2, 2, 1)
    assert said == {"Progressing": "False", "Available": "True"}
    assert engines == ["east/gang-0", "east/gang-1"]


def test_a_service_leads_to_leaders_and_the_group_has_one_of_its_own():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=2), service("gang"))
        await lab.settle()
        slices = lab.store.list("discovery.k8s.io", "EndpointSlice")
        return {e["targetRef"]["name"] for item in slices for e in item["endpoints"]}, lab.store.list("", "Service")

    ready, services = in_cluster(main)
    assert ready == {"gang-0"}
    assert [name_of(item) for item in services] == ["gang"]


def test_a_group_that_does_not_fit_whole_never_serves():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=3))
        await lab.settle()
        phases = [text_at(pod, "status", "phase") for pod in lab.pods()]
        return sorted(phases), conditions(lab), lab.engines.running

    phases, said, engines = in_cluster(main, nodes=1)
    assert phases == ["Pending", "Running", "Running"]
    assert said == {"Progressing": "True"}
    assert not engines


def test_workers_wait_for_a_leader_that_must_be_ready_first():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=1, startupPolicy="LeaderReady"))
        await lab.settle()
        alone = names(lab), conditions(lab)
        lab.apply(leader_worker_set("late", size=2, startupPolicy="LeaderReady"))
        await lab.settle()
        return alone, names(lab)

    (alone, said), both = in_cluster(main)
    assert alone == ["gang-0"]
    assert said["Available"] == "True"
    # Its leader waits for workers that wait for it: what the policy does to engines that span pods.
    assert both == ["gang-0", "late-0"]


@pytest.mark.parametrize("which", ["gang-0", "gang-0-1"])
@pytest.mark.parametrize("how", ["crash", "delete"])
def test_a_group_is_recreated_whole_when_one_of_its_pods_goes(which, how):
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(replicas=2, size=2))
        await lab.settle()
        every = ("gang-0", "gang-0-1", "gang-1", "gang-1-1")
        before = uids(lab, *every)
        if how == "crash":
            lab.cluster.crash_pod(TEAM, which)
        else:
            lab.store.delete(ObjectRef("", "Pod", TEAM, which))
        await lab.settle()
        return before, uids(lab, *every), conditions(lab), len(lab.claims())

    before, after, said, claims = in_cluster(main)
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True, True]
    assert said["Available"] == "True"
    assert claims == 4


def test_the_new_group_starts_only_when_everything_of_the_old_one_is_gone():
    overlaps = []

    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=2))
        await lab.settle()
        old = set(uids(lab, "gang-0", "gang-0-1"))

        def heard(change):
            if change.ref.kind == "Pod" and change.type == "ADDED" and change.ref.name == "gang-0":
                overlaps.append(old & {uid_of(pod) for pod in lab.pods()})

        lab.store.subscribe(heard)
        lab.store.delete(ObjectRef("", "Pod", TEAM, "gang-0-1"))
        await lab.settle()

    in_cluster(main)
    assert overlaps == [set()]


def test_without_the_policy_a_pod_comes_back_alone():
    async def main(lab):
        item = leader_worker_set(size=2)
        item["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
        lab.apply(CLAIMS, item)
        await lab.settle()
        before = uids(lab, "gang-0", "gang-0-1")
        lab.store.delete(ObjectRef("", "Pod", TEAM, "gang-0-1"))
        await lab.settle()
        return before, uids(lab, "gang-0", "gang-0-1")

    before, after = in_cluster(main)
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_after_start_a_group_with_a_pending_pod_is_left_alone():
    async def main(lab):
        item = leader_worker_set(size=3)
        item["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "RecreateGroupAfterStart"
        lab.apply(CLAIMS, item)
        await lab.settle()
        (running, *_) = [pod for pod in lab.pods() if text_at(pod, "status", "phase") == "Running"]
        leader = uids(lab, "gang-0")
        lab.cluster.crash_pod(TEAM, name_of(running))
        await lab.settle()
        return leader == uids(lab, "gang-0"), any(has_restarted(pod) for pod in lab.pods())

    assert in_cluster(main, nodes=1) == (True, True)


def test_more_and_fewer_groups():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=2))
        await lab.settle()
        lab.apply(with_spec(lab.get(leader_worker_set()), replicas=3))
        await lab.settle()
        more = names(lab)
        lab.apply(with_spec(lab.get(leader_worker_set()), replicas=1))
        await lab.settle()
        fewer = names(lab)
        lab.apply(with_spec(lab.get(leader_worker_set()), replicas=0))
        await lab.settle()
        return more, fewer, names(lab), conditions(lab), len(lab.claims())

    more, fewer, none, said, claims = in_cluster(main)
    assert more == ["gang-0", "gang-0-1", "gang-1", "gang-1-1", "gang-2", "gang-2-1"]
    assert fewer == ["gang-0", "gang-0-1"]
    assert none == []
    assert said["Available"] == "True"
    assert claims == 0


def rolled(lab, seen):
    """Record, whenever the status changes, how many groups are ready and how many leaders there are."""

    def heard(change):
        if change.ref.kind == "LeaderWorkerSet" and change.manifest.get("status"):
            status = change.manifest["status"]
            seen.append((status["readyReplicas"], status["replicas"]))

    lab.store.subscribe(heard)


@pytest.mark.parametrize(
    ("strategy", "least_ready", "most"),
    [
        ({}, 3, 4),
        ({"maxUnavailable": 2}, 2, 4),
        ({"maxUnavailable": 0, "maxSurge": 1}, 4, 5),
        ({"maxUnavailable": 1, "maxSurge": 2}, 3, 6),
    ],
)
def test_a_new_template_rolls_out_within_its_bounds(strategy, least_ready, most):
    seen = []

    async def main(lab):
        rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": strategy}
        lab.apply(CLAIMS, leader_worker_set(replicas=4, size=2, rolloutStrategy=rollout))
        await lab.settle()
        rolled(lab, seen)
        changed = leader_worker_set(replicas=4, size=2, image="vllm/vllm-openai:v2", rolloutStrategy=rollout)
        lab.apply(changed)
        await lab.clock.sleep(1)
        early = conditions(lab)
        await lab.settle()
        images = {pod["spec"]["containers"][0]["image"] for pod in lab.pods()}
        revisions = lab.store.list("apps", "ControllerRevision")
        return early, conditions(lab), images, names(lab), len(revisions)

    early, said, images, pods, revisions = in_cluster(main, nodes=8)
    assert early == {"Progressing": "True", "Available": "False", "UpdateInProgress": "True"}
    assert said == {"Progressing": "False", "Available": "True", "UpdateInProgress": "False"}
    assert images == {"vllm/vllm-openai:v2"}
    assert pods == [f"gang-{group}{worker}" for group in range(4) for worker in ("", "-1")]
    assert min(ready for ready, _ in seen) >= least_ready
    assert max(leaders for _, leaders in seen) == most
    # One of the LeaderWorkerSet, one of the leaders, one of the workers of each group.
    assert revisions == 6


def test_groups_below_the_partition_stay_and_come_back_on_their_revision():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(replicas=2, size=2))
        await lab.settle()
        rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"partition": 1}}
        lab.apply(leader_worker_set(replicas=2, size=2, image="vllm/vllm-openai:v2", rolloutStrategy=rollout))
        await lab.settle()
        lab.store.delete(ObjectRef("", "Pod", TEAM, "gang-0"))
        await lab.settle()
        return {name_of(pod): pod["spec"]["containers"][0]["image"][-2:] for pod in lab.pods()}, conditions(lab)

    images, said = in_cluster(main)
    assert images == {"gang-0": "v1", "gang-0-1": "v1", "gang-1": "v2", "gang-1-1": "v2"}
    assert said["Available"] == "True"


def test_deleting_it_leaves_nothing_behind():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(replicas=2, size=2))
        await lab.settle()
        lab.store.delete(ref_of(leader_worker_set()))
        await lab.settle()
        return lab.store.kinds(), lab.engines.running

    kinds, engines = in_cluster(main)
    expected = ["Namespace", "Node", "DeviceClass", "ResourceClaimTemplate", "ResourceSlice"]
    assert [kind for _, kind in kinds] == expected
    assert not engines


def test_a_lost_node_costs_the_group_and_a_new_one_starts_elsewhere():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(size=4))
        await lab.settle()
        lost = text_at(lab.store.get(ObjectRef("", "Pod", TEAM, "gang-0-1")), "spec", "nodeName")
        lab.cluster.lose_node(lost)
        await lab.clock.sleep(30)
        early = conditions(lab)["Available"]
        await lab.clock.sleep(100)
        lab.cluster.restore_node(lost)
        await lab.settle()
        return early, conditions(lab)["Available"], {text_at(pod, "spec", "nodeName") for pod in lab.pods()}, lost

    early, late, _, _ = in_cluster(main, nodes=4, settings=ClusterSettings(node_grace_s=10, eviction_s=30))
    assert (early, late) == ("False", "True")


def test_it_is_the_same_in_every_interleaving():
    async def main(lab):
        lab.apply(CLAIMS, leader_worker_set(replicas=3, size=2))
        await lab.settle()
        return [(name_of(pod), condition_is(pod, "Ready")) for pod in lab.pods()]

    found = [run_cluster(main, pools=[gpu_pool(nodes=3)], seed=seed) for seed in range(5)]
    assert found.count(found[0]) == len(found)


def test_the_number_of_groups_is_no_part_of_their_revision():
    assert revision_of(leader_worker_set(replicas=1)) == revision_of(leader_worker_set(replicas=5))
    assert revision_of(leader_worker_set(size=2)) != revision_of(leader_worker_set(size=3))


def test_labels_tell_the_place_in_the_group():
    async def main(lab):
        unique = {"subdomainPolicy": "UniquePerReplica"}
        lab.apply(CLAIMS, leader_worker_set(replicas=2, size=2, networkConfig=unique))
        await lab.settle()
        services = [name_of(item) for item in lab.store.list("", "Service")]
        return {name_of(pod): (labels_of(pod), pod["spec"]) for pod in lab.pods()}, services

    pods, services = in_cluster(main)
    prefix = "leaderworkerset.sigs.k8s.io"
    places = {
        name: (labels[f"{prefix}/group-index"], labels[f"{prefix}/worker-index"]) for name, (labels, _) in pods.items()
    }
    assert places == {"gang-0": ("0", "0"), "gang-0-1": ("0", "1"), "gang-1": ("1", "0"), "gang-1-1": ("1", "1")}
    keys = {name: labels[f"{prefix}/group-key"] for name, (labels, _) in pods.items()}
    assert keys["gang-0"] == keys["gang-0-1"] != keys["gang-1"]
    assert pods["gang-1-1"][1]["containers"][0]["env"][0]["value"] == "gang-1.gang-1.team"
    assert services == ["gang", "gang-0", "gang-1"]
