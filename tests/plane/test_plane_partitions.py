"""GPUs that are partitioned on demand, and GPUs that several claims share, on a whole plane."""

import copy
from pathlib import Path

import yaml

from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
GPUS = 2
PARTITIONED = {
    "sharedCounters": [{"name": "gpu", "count": GPUS, "counters": {"slices": {"value": "7"}}}],
    "devices": [
        {
            "name": "gpu",
            "driver": "gpu.nvidia.com",
            "deviceClassName": "gpu.nvidia.com",
            "count": GPUS,
            "attributes": {"type": {"string": "gpu"}},
            "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": "7"}}}],
        },
        {
            "name": "mig-3g",
            "driver": "gpu.nvidia.com",
            "deviceClassName": "mig.nvidia.com",
            "count": 2 * GPUS,
            "attributes": {"type": {"string": "mig"}},
            "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": "3"}}}],
        },
    ],
}
SHARED = {
    "devices": [
        {
            "name": "gpu",
            "driver": "gpu.nvidia.com",
            "deviceClassName": "gpu.nvidia.com",
            "count": GPUS,
            "attributes": {"type": {"string": "gpu"}},
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi"}}},
        }
    ]
}


def documents():
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def deployment(name, replicas, **asked):
    example = copy.deepcopy(next(item for item in documents() if item["kind"] == "ModelDeployment"))
    example["metadata"]["name"] = name
    example["spec"]["replicas"] = replicas
    example["spec"]["nodeSelector"]["devices"] = [{"name": "gpu", "count": 1, **asked}]
    return example


def of_type(kind):
    return {"selectors": [{"cel": f'device.attributes["gpu.nvidia.com"].type == "{kind}"'}]}


async def start(fleet, clock, spec):
    """One cluster with one node of such a class."""
    for item in documents():
        made = copy.deepcopy(item)
        if made["kind"] == "InferenceClass":
            fleet.plane.create({**made, "spec": spec})
        if made["metadata"]["name"] == "east":
            made["spec"]["nodePools"][0]["nodeCount"] = 1
            fleet.plane.create(made)
    await clock.sleep(5)


def held(fleet):
    """What claims hold: the device, and how much of it."""
    return sorted(
        (result["device"], *result.get("consumedCapacity", {}).values())
        for claim in fleet.database.store("cluster/east").list("resource.k8s.io", "ResourceClaim")
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    )


def placed(fleet, name):
    status = fleet.get("ModelDeployment", name, "default")["status"]
    return status["replicas"], status["readyReplicas"]


def free(fleet):
    pool = fleet.get("InferenceCluster", "east")["status"]["gpuPools"][0]
    return {device["name"]: device["free"] for device in pool["devices"]}


def test_a_gpu_and_its_partitions_are_never_held_together():
    """Two GPUs: three partitions of three slices take both, or one with a whole GPU beside it."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, PARTITIONED)
            assert free(fleet) == {"gpu": 2, "mig-3g": 4}
            fleet.plane.create(deployment("small", 1, **of_type("mig")))
            await clock.sleep(60)
            assert free(fleet) == {"gpu": 1, "mig-3g": 3}
            fleet.plane.create(deployment("whole", 2, **of_type("gpu")))
            await clock.sleep(60)
            assert (placed(fleet, "small"), placed(fleet, "whole")) == ((1, 1), (1, 1))
            assert held(fleet) == [("gpu-1",), ("mig-3g-0",)]
            conditions = fleet.get("ModelDeployment", "whole", "default")["status"]["conditions"]
            message = next(each["message"] for each in conditions if each["type"] == "ReplicasScheduled")
            assert "10 of 14 slices of gpu are held" in message

    run_virtual(main)


def test_a_gpu_is_shared_until_its_memory_is_taken():
    """Two GPUs of 80Gi: three shares of 35Gi and two of 10Gi; a third might keep one of 35Gi from starting again."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await start(fleet, clock, SHARED)
            assert free(fleet) == {"gpu": 16}
            fleet.plane.create(deployment("large", 3, capacity={"requests": {"memory": "35Gi"}}))
            await clock.sleep(60)
            assert placed(fleet, "large") == (3, 3)
            assert held(fleet) == [("gpu-0", "35Gi"), ("gpu-0", "35Gi"), ("gpu-1", "35Gi")]
            fleet.plane.create(deployment("small", 3))
            await clock.sleep(60)
            assert placed(fleet, "small") == (2, 2)
            assert held(fleet)[0] == ("gpu-0", "10Gi")
            pool = fleet.get("InferenceCluster", "east")["status"]["gpuPools"][0]
            assert pool["devices"][0]["heldByOthers"] == 0
            conditions = fleet.get("ModelDeployment", "small", "default")["status"]["conditions"]
            message = next(each["message"] for each in conditions if each["type"] == "ReplicasScheduled")
            assert "needs 1 pod with 1 x gpu with 10Gi memory; 0 fit wherever the cluster puts its pods" in message
            assert "125Gi of 160Gi memory of gpu are held" in message

    run_virtual(main)
