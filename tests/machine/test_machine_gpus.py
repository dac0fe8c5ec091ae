import pytest

from modelplane.api.definitions import definitions
from modelplane.k8s.admission.admit import Admitted, admit
from modelplane.machine.fleet import machine_fleet
from modelplane.machine.gpus import LocalGpu, find_gpus

LISTED = """\
0, GPU-6c1d, NVIDIA H200, 143771, 9.0, 570.86.10
1, GPU-7c1d, NVIDIA H200, 143771, 9.0, 570.86.10
"""
H200 = LocalGpu(0, "GPU-6c1d", "NVIDIA H200", 143771, "9.0", "570.86.10")


def test_gpus_are_what_the_driver_lists():
    assert find_gpus(lambda: LISTED) == (H200, LocalGpu(1, "GPU-7c1d", "NVIDIA H200", 143771, "9.0", "570.86.10"))


@pytest.mark.parametrize(
    "listed", ["", "No devices were found\n", "NVIDIA-SMI has failed because it could not, well\n"]
)
def test_a_driver_without_gpus_has_none(listed):
    assert find_gpus(lambda: listed) == ()


@pytest.mark.parametrize(("capability", "name"), [
    ("7.0", "Volta"), ("7.5", "Turing"), ("8.0", "Ampere"), ("8.9", "Ada Lovelace"), ("9.0", "Hopper"),
    ("10.0", "Blackwell"), ("12.0", "Blackwell"), ("[N/A]", ""),
])  # fmt: skip
def test_architectures(capability, name):
    assert LocalGpu(0, "u", "n", 1, capability, "1").architecture == name


@pytest.mark.parametrize("gpus", [(), (H200,), find_gpus(lambda: LISTED)], ids=len)
def test_the_api_accepts_what_is_declared(gpus):
    for item in machine_fleet(gpus):
        verdict = admit(item, definitions()[item["apiVersion"], item["kind"]])
        assert isinstance(verdict, Admitted), verdict


def test_devices_have_the_attributes_that_the_dra_driver_publishes():
    device = machine_fleet((H200,))[0]["spec"]["devices"][0]
    assert device == {
        "name": "gpu",
        "driver": "gpu.nvidia.com",
        "deviceClassName": "gpu.nvidia.com",
        "count": 1,
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H200"},
            "architecture": {"string": "Hopper"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "570.86.10"},
        },
        "capacity": {"memory": {"value": "143771Mi"}},
    }
