"""What pools mean: the devices that drivers publish, and the classes behind them."""

from modelplane.api.codec import decode
from modelplane.api.models import Attribute, Capacity, ClassDevice, InferenceClass, InferenceCluster
from modelplane.sim.cluster.pools import NodePoolSpec, device_classes, drivers_of, pools_of, published_devices

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
