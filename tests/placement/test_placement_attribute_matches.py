"""Devices with one value of an attribute: placement answers what a cluster's scheduler does on an unused node."""

import pytest

from modelplane.api.models import ClassDevice, GpuPool, PoolDevice
from modelplane.api.objects import manifest
from modelplane.compose.pool_hardware import pool_of
from modelplane.placement.matching import Unmatched, engine_allocations
from modelplane.placement.request import AttributeMatch, EngineRequest, MemberRequest, NodeDeviceRequest
from modelplane.placement.wording import Mismatch
from modelplane.sim.cluster.pools import NodePoolSpec
from modelplane.testing.cluster import TENANT_NAMESPACE, deployment, run_cluster

ROOT = "resource.kubernetes.io/pcieRoot"
CLASSES = {"gpu": "gpu.nvidia.com", "nic": "nic.example.com"}
SELECTORS = {name: f'device.driver == "{driver}"' for name, driver in CLASSES.items()}


def devices(model, gpus, nics):
    """`gpus` and `nics` are how many a node has, and how many share a root; None: they have no such attribute."""
    return tuple(
        model(
            name=name,
            claim="DRA",
            driver=CLASSES[name],
            device_class_name=CLASSES[name],
            count=count,
            devices_per_value={ROOT: shared} if shared else {},
        )
        for name, (count, shared) in (("gpu", gpus), ("nic", nics))
    )


def engine(requests, matches):
    wanted = tuple(
        NodeDeviceRequest(name, count, (SELECTORS[name.partition("-")[0]],)) for name, count in requests.items()
    )
    found = tuple(AttributeMatch(ROOT, tuple(names)) for names in matches)
    return EngineRequest("main", 1, (MemberRequest(1, wanted, found),))


def template(requests, matches):
    exactly = [
        {"name": name, "exactly": {"deviceClassName": CLASSES[name.partition("-")[0]], "count": count}}
        for name, count in requests.items()
    ]
    for each in exactly:
        each["exactly"]["allocationMode"] = "ExactCount"
    constraints = [{**({"requests": list(names)} if names else {}), "matchAttribute": ROOT} for names in matches]
    spec = {"spec": {"devices": {"requests": exactly, "constraints": constraints}}}
    return manifest("resource.k8s.io/v1", "ResourceClaimTemplate", "model", namespace=TENANT_NAMESPACE, spec=spec)


PAIRS = {f"{name}-{index}": 1 for index in range(4) for name in ("gpu", "nic")}
PAIRED = [(f"gpu-{index}", f"nic-{index}") for index in range(4)]
CASES = [
    pytest.param((8, 1), (8, 1), {"gpu": 1, "nic": 1}, [("gpu", "nic")], True, id="a GPU and its NIC"),
    pytest.param((8, 2), (8, 2), {"gpu": 2, "nic": 2}, [()], True, id="all that is on one root"),
    pytest.param((8, 2), (8, 2), {"gpu": 3, "nic": 1}, [()], False, id="more than a root has"),
    pytest.param((8, 1), (8, 1), {"gpu": 8, "nic": 8}, [("gpu", "nic")], False, id="a node is not one root"),
    pytest.param((8, 1), (8, 1), {"gpu": 8, "nic": 1}, [("nic",)], True, id="only what is named"),
    pytest.param((8, 1), (8, 1), PAIRS, PAIRED, True, id="four pairs"),
    pytest.param((8, 2), (4, 1), PAIRS, PAIRED, True, id="four pairs, two GPUs on a root"),
    pytest.param((2, 1), (4, 1), PAIRS, PAIRED, False, id="more pairs than GPUs"),
    pytest.param((8, None), (8, 1), {"gpu": 1, "nic": 1}, [()], False, id="a device without the attribute"),
    pytest.param((8, 4), (2, 1), {"gpu": 4, "nic": 1}, [()], True, id="one NIC for four GPUs"),
]


@pytest.mark.parametrize(("gpus", "nics", "requests", "matches", "fits"), CASES)
def test_what_fits_an_unused_node(gpus, nics, requests, matches, fits):
    pool = pool_of(GpuPool(name="p", nodes=1, devices=devices(PoolDevice, gpus, nics)), None)
    found = engine_allocations(engine(requests, matches), pool.hardware)
    assert isinstance(found, Unmatched) is not fits

    async def main(lab):
        lab.apply(template(requests, matches), deployment(pool="p"))
        await lab.settle()
        return [pod["spec"].get("nodeName") for pod in lab.pods()]

    spec = NodePoolSpec(name="p", nodes=1, devices=devices(ClassDevice, gpus, nics))
    assert run_cluster(main, pools=[spec]) == (["p-0"] if fits else [None])


def test_the_refusal_names_the_attribute():
    pool = pool_of(GpuPool(name="p", nodes=1, devices=devices(PoolDevice, (8, 1), (8, 1))), None)
    asked = engine({"gpu": 2, "nic": 2}, [()])
    found = engine_allocations(asked, pool.hardware)
    assert found == Unmatched(asked.members[0].requests[0], 0, attribute=ROOT)
    expected = f"no devices of a node that serve the requests share a value of {ROOT}"
    assert str(Mismatch(found, pool.hardware)) == expected
