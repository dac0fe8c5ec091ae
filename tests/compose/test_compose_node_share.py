"""The share of a node's CPU and memory that a pod may request, by the devices that it claims."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool, NodeResources
from modelplane.compose.node_share import cpu_millis, memory_bytes, node_share
from modelplane.compose.pool_hardware import pool_of
from modelplane.placement.matching import Claim

GPU = {"name": "gpu", "claim": "DRA", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", "count": 8}
NIC = {"name": "nic", "claim": "DRA", "driver": "net", "deviceClassName": "nic.example.com", "count": 4}
FABRIC = {"name": "fabric", "claim": "Synthetic", "driver": "fabric.modelplane.ai", "count": 1}
COUNTERS = [{"name": "slices", "count": 8, "counters": {"memory": {"value": "80Gi"}}}]
PARTED = {
    **GPU,
    "consumesCounters": [{"counterSet": "slices", "counters": {"memory": {"value": "80Gi"}}}],
}
H200 = {"cpu": "192", "memory": "2Ti"}


def pool(devices=(GPU, FABRIC), resources=H200, **more):
    entry = {"name": "p", "nodes": 1, "devices": list(devices), **({"nodeResources": resources} if resources else {})}
    return pool_of(decode(GpuPool, {**entry, **more}), None)


def claim(count, name="gpu.nvidia.com"):
    return Claim("c", name, count, ())


@pytest.mark.parametrize(
    ("where", "claims", "expected"),
    [
        pytest.param(pool(), (claim(8),), NodeResources(cpu="144", memory="1572864Mi"), id="a node, less a quarter"),
        pytest.param(pool(), (claim(2),), NodeResources(cpu="36", memory="393216Mi"), id="two of eight"),
        pytest.param(pool(), (claim(1), claim(2)), NodeResources(cpu="54", memory="589824Mi"), id="requests add up"),
        pytest.param(
            pool((GPU, NIC)),
            (claim(2), claim(4, "nic.example.com")),
            NodeResources(cpu="144", memory="1572864Mi"),
            id="who has all NICs has the node",
        ),
        pytest.param(pool(resources={"cpu": "4"}), (claim(1),), NodeResources(cpu="375m"), id="what the class says"),
        pytest.param(pool(resources={"cpu": "11m"}), (claim(1),), NodeResources(cpu="1m"), id="the least that counts"),
        pytest.param(pool(resources={"memory": "2Mi"}), (claim(8),), NodeResources(memory="1Mi"), id="a mebibyte"),
        pytest.param(pool(resources={"memory": "16G"}), (claim(8),), NodeResources(memory="11444Mi"), id="decimal"),
        pytest.param(pool(), (claim(99),), NodeResources(cpu="144", memory="1572864Mi"), id="never more than a node"),
        pytest.param(pool(), (), None, id="no claims"),
        pytest.param(pool(), (claim(1, "other.example.com"),), None, id="devices that the node does not have"),
        pytest.param(pool(), (Claim("c", None, 1, ()),), None, id="synthetic devices"),
        pytest.param(pool(resources=None), (claim(8),), None, id="the class does not say"),
        pytest.param(pool(resources={"cpu": "much"}), (claim(8),), None, id="no quantity"),
        pytest.param(pool((PARTED,), sharedCounters=COUNTERS), (claim(1),), None, id="devices that are divided"),
        pytest.param(pool(resources={"memory": "64Ti"}), (claim(8),), NodeResources(memory="50331648Mi"), id="no CPU"),
        pytest.param(None, (claim(8),), None, id="a pool that is not known"),
    ],
)
def test_the_share_of_a_pod(where, claims, expected):
    assert node_share(where, claims) == expected


def test_pods_that_take_all_devices_fit_on_the_node():
    shares = [node_share(pool(resources={"cpu": "7", "memory": "31Gi"}), (claim(each),)) for each in (3, 3, 2)]
    assert sum(int(share.cpu.removesuffix("m")) for share in shares) <= 7000 * 3 // 4
    assert sum(int(share.memory.removesuffix("Mi")) for share in shares) <= 31 * 1024 * 3 // 4


@pytest.mark.parametrize(
    ("written", "millis", "size"),
    [
        ("2", 2000, 2),
        (2, 2000, 2),
        ("1500m", 1500, 2),
        ("0.1m", 1, 1),
        ("1Ki", 1_024_000, 1024),
        ("much", 0, 0),
        (None, 0, 0),
    ],
)
def test_a_quantity_of_a_container_is_rounded_up_and_what_is_none_counts_for_nothing(written, millis, size):
    assert (cpu_millis(written), memory_bytes(written)) == (millis, size)
