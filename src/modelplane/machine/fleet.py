"""What the platform team would declare of this machine: a class, a cluster of one node and a gateway."""

import os
from collections.abc import Sequence

from modelplane.api.objects import API_VERSION, Json, name_of
from modelplane.machine.gpus import LocalGpu

CLUSTER, GPU_CLASS, CPU_CLASS = "this-machine", "this-machine-gpus", "this-machine-cpu"
CPU_DRIVER = "cpu.modelplane.ai"
_GPU_DRIVER = "gpu.nvidia.com"


def machine_fleet(gpus: Sequence[LocalGpu]) -> list[Json]:
    """One node with its GPUs, and with its processor as a device where it has none."""
    hardware = _gpu_class(gpus) if gpus else _cpu_class()
    pool = {"name": "local", "className": name_of(hardware), "nodeCount": 1}
    source = {"source": "Existing", "existing": {"secretRef": {"name": CLUSTER}}}
    return [
        hardware,
        _object("InferenceGateway", "default", {}),
        _object("InferenceCluster", CLUSTER, {"cluster": source, "nodePools": [pool]}),
    ]


def _gpu_class(gpus: Sequence[LocalGpu]) -> Json:
    first = gpus[0]
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": first.product},
        "architecture": {"string": first.architecture},
        "brand": {"string": "Nvidia"},
        "cudaComputeCapability": {"version": f"{first.capability}.0"},
        "driverVersion": {"version": _version(first.driver)},
    }
    device = {
        "name": "gpu",
        "driver": _GPU_DRIVER,
        "deviceClassName": _GPU_DRIVER,
        "count": len(gpus),
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{min(gpu.memory_mib for gpu in gpus)}Mi"}},
    }
    return _object("InferenceClass", GPU_CLASS, {"devices": [device]})


def _cpu_class() -> Json:
    cores = os.cpu_count() or 1
    device = {
        "name": "cpu",
        "driver": CPU_DRIVER,
        "deviceClassName": CPU_DRIVER,
        "count": cores,
        "attributes": {"type": {"string": "cpu"}},
    }
    return _object("InferenceClass", CPU_CLASS, {"devices": [device]})


def _version(text: str) -> str:
    """Three numbers without leading zeros, as the driver publishes 570.86.10 or 535.04."""
    parts = [str(int(part)) for part in text.split(".") if part.isdigit()][:3]
    return ".".join([*parts, *["0"] * (3 - len(parts))])


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
