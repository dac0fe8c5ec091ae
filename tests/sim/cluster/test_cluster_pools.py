"""What pools mean: the devices that drivers publish, and the classes behind them."""

from modelplane.api.codec import decode
from modelplane.api.models import (
    Attribute,
    Capacity,
    ClassDevice,
    ConsumedCounters,
    CounterValue,
    InferenceClass,
    InferenceCluster,
    SharedCounters,
)
from modelplane.sim.cluster.pools import (
    NodePoolSpec,
    class_expression,
    device_classes,
    drivers_of,
    pools_of,
    published_counters,
    published_devices,
)

GPU = ClassDevice(
    name="gpu",
    driver="gpu.nvidia.com",
    device_class_name="gpu.nvidia.com",
    count=2,
    attributes={"type": Attribute(string="gpu"), "nvlink": Attribute(bool_=True), "minor": Attribute(int_=3)},
    capacity={"memory": Capacity(value="80Gi")},
)
NIC = ClassDevice(name="nic", driver="dra.net", device_class_name="rdma", count=1)
FABRIC = ClassDevice(name="fabric", driver="fabric.example.com", claim="Synthetic", count=4)
POOL = NodePoolSpec(name="h100", nodes=2, devices=(GPU, NIC, FABRIC))


def test_a_driver_lists_each_of_its_devices():
    described = {
        "attributes": {"type": {"string": "gpu"}, "nvlink": {"bool": True}, "minor": {"int": 3}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    assert published_devices(POOL, "gpu.nvidia.com") == [{"name": "gpu-0", **described}, {"name": "gpu-1", **described}]
    assert published_devices(POOL, "dra.net") == [{"name": "nic-0"}]


def test_synthetic_devices_exist_in_no_cluster():
    assert drivers_of(POOL) == ("dra.net", "gpu.nvidia.com")
    assert published_devices(POOL, "fabric.example.com") == []


def test_a_class_covers_every_driver_that_names_it():
    other = NodePoolSpec(
        name="b", nodes=1, devices=(ClassDevice(name="x", driver="other.net", device_class_name="rdma"),)
    )
    assert device_classes([POOL, other]) == {"gpu.nvidia.com": ("gpu.nvidia.com",), "rdma": ("dra.net", "other.net")}


def test_pools_of_a_declared_cluster():
    cluster = decode(
        InferenceCluster,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east"},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
                "nodePools": [
                    {
                        "name": "fixed",
                        "className": "known",
                        "nodeCount": 3,
                        "zones": ["a"],
                        "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
                    },
                    {"name": "scaled", "className": "missing", "nodeCount": 1, "maxNodeCount": 5},
                ],
            },
        },
    )
    known = decode(
        InferenceClass,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceClass",
            "metadata": {"name": "known"},
            "spec": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}]},
        },
    )
    fixed, scaled = pools_of(cluster, {"known": known})
    assert fixed == NodePoolSpec(
        name="fixed",
        nodes=3,
        devices=known.spec.devices,
        taints=cluster.spec.node_pools[0].taints,
        zones=("a",),
    )
    assert scaled == NodePoolSpec(name="scaled", nodes=5, devices=None)
    assert scaled.claimable == ()


def drawing(name, count, drawn, device_class):
    return ClassDevice(
        name=name,
        driver="gpu.nvidia.com",
        device_class_name=device_class,
        count=count,
        attributes={"type": Attribute(string=name)},
        consumes_counters=(ConsumedCounters(counter_set="gpu", counters={"slices": CounterValue(value=drawn)}),),
    )


def test_partitions_are_published_with_the_counters_that_they_draw_on():
    counters = (SharedCounters(name="gpu", count=2, counters={"slices": CounterValue(value="7")}),)
    devices = (drawing("gpu", 2, "7", "gpu.nvidia.com"), drawing("mig", 4, "3", "mig.nvidia.com"))
    pool = NodePoolSpec(name="h100", nodes=1, devices=devices, counters=counters)
    assert published_counters(pool, "gpu.nvidia.com") == [
        {"name": f"gpu-{at}", "counters": {"slices": {"value": "7"}}} for at in range(2)
    ]
    assert published_counters(pool, "dra.net") == []
    drawn = {each["name"]: each["consumesCounters"] for each in published_devices(pool, "gpu.nvidia.com")}
    assert {name: consumed[0]["counterSet"] for name, consumed in drawn.items()} == {
        "gpu-0": "gpu-0",
        "gpu-1": "gpu-1",
        "mig-0": "gpu-0",
        "mig-1": "gpu-1",
        "mig-2": "gpu-0",
        "mig-3": "gpu-1",
    }
    assert class_expression("mig.nvidia.com", ["gpu.nvidia.com"], [pool]) == (
        'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type in ["mig"]'
    )
    assert class_expression("gpu.nvidia.com", ["gpu.nvidia.com"], [POOL]) == 'device.driver == "gpu.nvidia.com"'


def test_a_shared_device_says_so():
    shared = ClassDevice(name="gpu", driver="d", device_class_name="c", allow_multiple_allocations=True)
    pool = NodePoolSpec(name="h100", nodes=1, devices=(shared,))
    assert published_devices(pool, "d") == [{"name": "gpu-0", "allowMultipleAllocations": True}]
