"""Who goes where, in which order, and what a pod that fits nowhere is told."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.models import Taint
from modelplane.api.objects import manifest, name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec
from modelplane.sim.cluster.devices import devices_of
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster

NOW = "2025-06-15T15:06:40Z"


def scheduled(pod):
    return next((c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"), None)


def waiting(lab):
    return [scheduled(pod)["message"] for pod in lab.pods() if "nodeName" not in pod["spec"]]


def per_node(lab):
    return Counter(pod["spec"]["nodeName"] for pod in lab.pods() if "nodeName" in pod["spec"])


def test_a_full_node_packs_eight_and_the_ninth_waits_with_a_reason():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=9))
        await lab.settle()
        devices = sorted(str(device) for claim in lab.claims() for device in devices_of(claim))
        pending = next(pod for pod in lab.pods() if "nodeName" not in pod["spec"])
        return per_node(lab), devices, pending["status"]

    nodes, devices, pending = run_cluster(main, pools=[gpu_pool("h200", 1)])
    assert nodes == {"h200-0": 8}
    assert devices == [f"gpu.nvidia.com/h200-0/gpu-{n}" for n in range(8)]
    assert pending["phase"] == "Pending"
    assert pending["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 cannot allocate all claims.",
            "lastTransitionTime": NOW,
        }
    ]


def test_pods_of_one_owner_are_spread():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=7))
        await lab.settle()
        return per_node(lab)

    assert run_cluster(main, pools=[gpu_pool("h200", 3)]) == {"h200-0": 3, "h200-1": 2, "h200-2": 2}


def test_reasons_are_counted_and_sorted_as_kube_scheduler_does():
    tainted = dataclasses.replace(gpu_pool("tainted", 5), taints=(Taint(key="team", effect="NoSchedule"),))

    async def main(lab):
        lab.apply(claim_template(gpus=9), deployment())
        await lab.settle()
        return waiting(lab)

    (message,) = run_cluster(main, pools=[gpu_pool("h200", 10), gpu_pool("h100", 5), tainted])
    assert message == (
        "0/20 nodes are available: 10 cannot allocate all claims, 5 node(s) didn't match Pod's node affinity/selector, "
        "5 node(s) had untolerated taint(s)."
    )


@pytest.mark.parametrize(
    ("case", "template", "pools", "reason", "message"),
    [
        ("no nodes", claim_template(), [], "Unschedulable", "no nodes available to schedule pods"),
        (
            "no such class",
            claim_template(),
            [NodePoolSpec(name="h200", nodes=2)],
            "Unschedulable",
            "0/2 nodes are available: request gpu: device class gpu.nvidia.com does not exist.",
        ),
        (
            "no such devices",
            claim_template(selector='device.attributes["gpu.nvidia.com"].architecture == "Blackwell"'),
            [gpu_pool("h200", 2)],
            "Unschedulable",
            "0/2 nodes are available: 2 cannot allocate all claims.",
        ),
        (
            "a selector that fails ends the attempt",
            claim_template(selector='device.attributes["gpu.nvidia.com"].nothing == "x"'),
            [gpu_pool("h200", 2)],
            "SchedulerError",
            "no such key",
        ),
    ],
)
def test_why_a_pod_does_not_fit(case, template, pools, reason, message):
    async def main(lab):
        lab.apply(template, deployment())
        await lab.settle()
        (pod,) = lab.pods()
        return scheduled(pod)

    found = run_cluster(main, pools=pools)
    assert found["reason"] == reason, case
    assert message in found["message"], case


def test_a_selector_chooses_among_devices():
    async def main(lab):
        selector = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'
        made = deployment(pool="big")
        made["spec"]["template"]["spec"]["nodeSelector"] = {}
        lab.apply(claim_template(selector=selector), made)
        await lab.settle()
        return per_node(lab)

    pools = [gpu_pool("aaa", 2, memory="80Gi"), gpu_pool("big", 1, memory="141Gi")]
    assert run_cluster(main, pools=pools) == {"big-0": 1}


def test_pods_without_claims_are_placed_by_the_other_filters_only():
    async def main(lab):
        lab.apply(deployment(replicas=3, claims=False, pool="cpu"))
        await lab.settle()
        return per_node(lab), waiting(lab)

    cpu = NodePoolSpec(name="cpu", nodes=1)
    small = ClusterSettings(system_nodes=0, pods_per_node=2)
    assert run_cluster(main, pools=[cpu, gpu_pool()], settings=small) == (
        {"cpu-0": 2},
        ["0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s)."],
    )


def test_a_gpu_node_refuses_pods_that_do_not_tolerate_it():
    async def main(lab):
        lab.apply(deployment(claims=False))
        await lab.settle()
        return waiting(lab)

    assert run_cluster(main, pools=[gpu_pool()]) == ["0/1 nodes are available: 1 node(s) had untolerated taint(s)."]


def pod(name, *, priority=None, gates=None):
    spec = {"containers": [{"name": "c"}]}
    if priority:
        spec["priorityClassName"] = priority
    if gates:
        spec["schedulingGates"] = gates
    return manifest("v1", "Pod", name, namespace=TENANT_NAMESPACE, spec=spec)


def test_higher_priority_goes_first_and_nobody_is_preempted():
    urgent = manifest("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=1000)

    async def main(lab):
        lab.apply(urgent, pod("a"), pod("b"), pod("z", priority="urgent"))
        await lab.settle()
        first = sorted(name_of(p) for p in lab.pods() if "nodeName" in p["spec"])
        lab.apply(pod("y", priority="urgent"))
        await lab.settle()
        return first, sorted(name_of(p) for p in lab.pods() if "nodeName" in p["spec"])

    settings_ = ClusterSettings(system_nodes=0, pods_per_node=1)
    assert run_cluster(main, pools=[NodePoolSpec(name="cpu", nodes=1)], settings=settings_) == (["z"], ["z"])


def test_a_gated_pod_waits_for_its_gates():
    async def main(lab):
        lab.apply(pod("a", gates=[{"name": "kueue"}]))
        await lab.settle()
        gated = scheduled(lab.pods()[0])
        found = lab.get(pod("a"))
        lab.apply({**found, "spec": {"containers": [{"name": "c"}]}})
        await lab.settle()
        return gated["reason"], lab.pods()[0]["spec"].get("nodeName")

    assert run_cluster(main, pools=[NodePoolSpec(name="cpu", nodes=1)]) == ("SchedulingGated", "cpu-0")


def test_a_waiting_pod_is_placed_when_devices_come_free_or_appear():
    async def main(lab):
        lab.apply(claim_template(gpus=8), deployment(replicas=3))
        await lab.settle()
        before = len(waiting(lab))
        lab.cluster.set_pools([gpu_pool("h200", 2)])
        await lab.settle()
        grown = len(waiting(lab))
        gone = next(p for p in lab.pods() if "nodeName" in p["spec"])
        lab.store.delete(ref_of(gone))
        await lab.settle()
        return before, grown, len(waiting(lab)), sum(per_node(lab).values())

    assert run_cluster(main, pools=[gpu_pool("h200", 1)]) == (2, 1, 1, 2)


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(1, 3),
    gpus=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6
    ),
    sizes=st.fixed_dictionaries({name: st.integers(1, 4) for name in "abc"}),
    seed=st.integers(0, 1000),
)
def test_no_device_is_held_twice_and_none_lies_idle_that_a_pod_waits_for(nodes, gpus, steps, sizes, seed):
    async def main(lab):
        lab.store.subscribe(lambda change: check(lab, change))
        for name, replicas, pause in steps:
            lab.apply(claim_template(name, gpus=sizes[name]), deployment(name, replicas))
            await lab.clock.sleep(pause)
        await lab.settle()
        waits = {pod["metadata"]["labels"]["app"] for pod in lab.pods() if "nodeName" not in pod["spec"]}
        return Counter(device.pool for device in held(lab)), waits

    taken, waits = run_cluster(main, pools=[gpu_pool("h200", nodes, gpus=gpus)], seed=seed)
    free = [gpus - taken[f"h200-{index}"] for index in range(nodes)]
    assert min(free) >= 0
    assert all(max(free) < sizes[name] for name in waits)


def held(lab):
    return [device for claim in lab.claims() for device in devices_of(claim)]


def check(lab, change):
    """After every write: no device twice, no claim in part or over two nodes."""
    if change.ref.kind != "ResourceClaim":
        return
    devices = held(lab)
    assert len(devices) == len(set(devices))
    mine = devices_of(change.manifest)
    assert len(mine) in {0, change.manifest["spec"]["devices"]["requests"][0]["exactly"]["count"]}
    assert len({device.pool for device in mine}) <= 1
