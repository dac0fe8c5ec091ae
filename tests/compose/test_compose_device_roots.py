"""Which requests of a pod are to have their devices on one PCIe root without anybody writing it."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import GpuPool
from modelplane.compose.device_roots import root_requests
from modelplane.compose.pool_hardware import pool_of
from modelplane.placement.matching import Claim
from modelplane.placement.request import AttributeMatch

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
GPU_CLASS, NIC_CLASS = "gpu.nvidia.com", "nic.example.com"


def device(name, device_class, shared, **more):
    per_value = {"devicesPerValue": {PCIE_ROOT: shared}} if shared else {}
    entry = {"name": name, "claim": "DRA", "driver": device_class, "deviceClassName": device_class, "count": 8}
    return {**entry, **per_value, **more}


def pool(gpus=2, nics=1, *more_gpus):
    others = [device(f"gpu-{shared}", GPU_CLASS, shared) for shared in more_gpus]
    devices = [device("gpu", GPU_CLASS, gpus), device("nic", NIC_CLASS, nics), *others]
    return pool_of(decode(GpuPool, {"name": "p", "nodes": 1, "devices": devices}), None)


def gpu(count=1, name="gpu"):
    return Claim(name, GPU_CLASS, count, ())


def nic(count=1):
    return Claim("nic", NIC_CLASS, count, ())


BOTH = ("gpu", "nic")


@pytest.mark.parametrize(
    ("where", "claims", "networked", "expected"),
    [
        pytest.param(pool(), (gpu(), nic()), True, BOTH, id="a GPU and a card"),
        pytest.param(pool(), (gpu(2), nic()), True, BOTH, id="as many as share a root"),
        pytest.param(pool(), (gpu(), gpu(name="other"), nic()), True, ("gpu", "other", "nic"), id="requests add up"),
        pytest.param(pool(), (gpu(), nic()), False, (), id="an engine without the network"),
        pytest.param(pool(), (gpu(8), nic(8)), True, (), id="more than one root has"),
        pytest.param(pool(), (gpu(), gpu(2, "other"), nic()), True, (), id="more by two requests"),
        pytest.param(pool(), (gpu(2),), True, (), id="no card is claimed"),
        pytest.param(pool(nics=0), (gpu(), nic()), True, (), id="the class does not say it of cards"),
        pytest.param(pool(gpus=0), (gpu(), nic()), True, (), id="the class does not say it of GPUs"),
        pytest.param(None, (gpu(), nic()), True, (), id="a pool that is not known"),
        pytest.param(pool(), (gpu(), Claim("t", "tpu.example.com", 1, ())), True, (), id="a class that it lacks"),
        pytest.param(pool(), (gpu(), Claim("fabric", None, 1, ())), True, (), id="synthetic devices"),
        pytest.param(pool(), (gpu(), nic(), Claim("fabric", None, 1, ())), True, BOTH, id="synthetic devices beside"),
        pytest.param(pool(2, 1, 1), (gpu(2), nic()), True, (), id="as many as the worst kind of a class has on one"),
    ],
)
def test_requests_on_one_root(where, claims, networked, expected):
    assert root_requests(where, claims, (), networked=networked) == expected


def test_what_is_written_wins():
    written = (AttributeMatch(PCIE_ROOT, ("gpu-0", "nic-0")),)
    assert root_requests(pool(), (gpu(), nic()), written, networked=True) == ()
    other = (AttributeMatch("example.com/numa", ("gpu", "nic")),)
    assert root_requests(pool(), (gpu(), nic()), other, networked=True) == BOTH
