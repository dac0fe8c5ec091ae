"""The published hardware, as whole objects."""

import dataclasses

from modelplane.api.models import ClassDevice, Taint
from modelplane.api.objects import name_of
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
    "lastTransitionTime": "2025-06-15T15:06:40Z",
}


def content(item):
    """The object without what the store gives it."""
    kept = {k: v for k, v in item["metadata"].items() if k in {"name", "labels", "ownerReferences", "annotations"}}
    return {**item, "metadata": kept}


def settled(pools):
    async def main(lab):
        await lab.settle()
        return lab.store

    return run_cluster(main, pools=pools)


def test_a_gpu_node_with_its_devices():
    store = settled([dataclasses.replace(gpu_pool("h200", 1, gpus=2), zones=("a", "b"))])
    (node,) = store.list("", "Node")
    (devices,) = store.list("resource.k8s.io", "ResourceSlice")
    (device_class,) = store.list("resource.k8s.io", "DeviceClass")
    assert content(node) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "h200-0",
            "labels": {
                "modelplane.ai/pool": "h200",
                "kubernetes.io/hostname": "h200-0",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "a",
            },
        },
        "spec": {
            "podCIDR": "10.128.0.0/24",
            "podCIDRs": ["10.128.0.0/24"],
            "providerID": "sim://east/h200-0",
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"pods": "110"},
            "allocatable": {"pods": "110"},
            "addresses": [{"type": "Hostname", "address": "h200-0"}],
            "conditions": [READY],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
        },
    }
    described = {
        "attributes": {"type": {"string": "gpu"}, "architecture": {"string": "Hopper"}},
        "capacity": {"memory": {"value": "141Gi"}},
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": "h200-0", "uid": node["metadata"]["uid"], "controller": True}
    assert content(devices) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": "h200-0-gpu.nvidia.com",
            "labels": {"sim.modelplane.ai/published": "h200-0"},
            "ownerReferences": [owner],
        },
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "h200-0",
            "pool": {"name": "h200-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", **described}, {"name": "gpu-1", **described}],
        },
    }
    assert content(device_class) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com", "labels": {"sim.modelplane.ai/published": "true"}},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
    }


def test_nodes_without_claimable_devices_are_not_tainted():
    synthetic = ClassDevice(name="fabric", driver="fabric.example.com", claim="Synthetic")
    mine = Taint(key="team", value="x", effect="NoSchedule")
    store = settled(
        [
            NodePoolSpec(name="cpu", nodes=1),
            NodePoolSpec(name="sim", nodes=1, devices=(synthetic,)),
            NodePoolSpec(name="mine", nodes=1, taints=(mine,)),
        ]
    )
    taints = {name_of(node): node["spec"].get("taints") for node in store.list("", "Node")}
    assert taints == {
        "cpu-0": None,
        "sim-0": None,
        "mine-0": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
    }
    assert store.list("resource.k8s.io", "ResourceSlice") == ()


def test_a_node_has_the_taint_of_the_vendor_of_its_gpus():
    """Pods tolerate that of their devices: another one would keep them pending."""
    amd = ClassDevice(name="gpu", driver="gpu.amd.com", device_class_name="gpu.amd.com", count=8)
    card = ClassDevice(name="nic", driver="dra.net", device_class_name="rdma.dra.net", count=8)
    pools = [
        NodePoolSpec(name="amd", nodes=1, devices=(amd,)),
        NodePoolSpec(name="amd-and-card", nodes=1, devices=(amd, card)),
        NodePoolSpec(name="card", nodes=1, devices=(card,)),
    ]
    taints = {
        name_of(node): [each["key"] for each in node["spec"]["taints"]] for node in settled(pools).list("", "Node")
    }
    assert taints == {"amd-0": ["amd.com/gpu"], "amd-and-card-0": ["amd.com/gpu"], "card-0": ["nvidia.com/gpu"]}


def test_pools_grow_and_shrink():
    async def main(lab):
        await lab.settle()
        lab.cluster.set_pools([gpu_pool("h200", 3)])
        await lab.settle()
        grown = {name_of(n): n["spec"]["podCIDR"] for n in lab.store.list("", "Node")}
        lab.cluster.set_pools([gpu_pool("h200", 1)])
        await lab.settle()
        left = [name_of(n) for n in lab.store.list("", "Node")]
        slices = [name_of(s) for s in lab.store.list("resource.k8s.io", "ResourceSlice")]
        lab.cluster.set_pools([])
        await lab.settle()
        kinds = [kind for _, kind in lab.store.kinds()]
        return grown, left, slices, kinds

    grown, left, slices, kinds = run_cluster(main, pools=[gpu_pool("h200", 2)])
    assert grown == {"h200-0": "10.128.0.0/24", "h200-1": "10.128.1.0/24", "h200-2": "10.128.2.0/24"}
    assert left == ["h200-0"]
    assert slices == ["h200-0-gpu.nvidia.com"]
    assert kinds == ["Namespace"]


def test_other_devices_are_a_new_generation_of_the_pool():
    async def main(lab):
        await lab.settle()
        lab.cluster.set_pools([gpu_pool("h200", 1, gpus=4)])
        await lab.settle()
        (devices,) = lab.store.list("resource.k8s.io", "ResourceSlice")
        return devices["spec"]["pool"]["generation"], len(devices["spec"]["devices"])

    assert run_cluster(main, pools=[gpu_pool("h200", 1, gpus=8)]) == (2, 4)


def test_what_others_made_is_left_alone():
    async def main(lab):
        theirs = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": []},
        }
        stranger = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stranger"}, "spec": {}}
        lab.apply(theirs, stranger)
        lab.cluster.set_pools([gpu_pool("h200", 1)])
        await lab.settle()
        return lab.get(theirs)["spec"], lab.get(stranger)["metadata"].get("labels")

    assert run_cluster(main) == ({"selectors": []}, None)


def test_devices_that_are_not_known_stay_as_they_are():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        before = lab.store.revision
        lab.cluster.set_pools([NodePoolSpec(name="h200", nodes=1, devices=None)])
        await lab.settle()
        same = lab.store.revision == before
        lab.apply(deployment(replicas=3))
        await lab.settle()
        return same, len(lab.engines.running)

    assert run_cluster(main, pools=[gpu_pool("h200", 1)]) == (True, 3)


def test_a_cluster_that_starts_again_keeps_devices_that_are_not_known():
    async def main(lab):
        await lab.settle()
        lab.cluster._nodes._pools = None
        before = lab.store.revision
        lab.cluster.set_pools([NodePoolSpec(name="h200", nodes=1, devices=None)])
        await lab.settle()
        return lab.store.revision == before

    assert run_cluster(main, pools=[gpu_pool("h200", 1)])


def test_a_cluster_has_nodes_for_what_needs_no_devices():
    async def main(lab):
        await lab.settle()
        (node,) = [item for item in lab.store.list("", "Node") if name_of(item) == "system-0"]
        return node["metadata"]["labels"], node["spec"].get("taints")

    labels, taints = run_cluster(main, pools=[gpu_pool()], settings=ClusterSettings(system_nodes=1))
    assert (labels["kubernetes.io/hostname"], taints) == ("system-0", None)
    assert "modelplane.ai/pool" not in labels
