"""The InferenceClass of a node: what its driver publishes, what joins its GPUs to others, and its price."""

from typing import Final

from modelplane.api.objects import API_VERSION
from modelplane.catalog.machines import Catalog, GpuProduct, Machine

FABRIC_DRIVER: Final = "fabric.modelplane.ai"
_TYPES: Final = {"gpu.nvidia.com": "gpu", "gpu.amd.com": "amdgpu"}
"""What drivers publish as the type of a whole GPU."""
_MACHINE_FIELDS: Final = {"GKE": "machineType", "EKS": "instanceType", "AKS": "vmSize"}
_GKE_ACCELERATORS: Final = {
    "a100-40gb": "nvidia-tesla-a100", "a100-80gb": "nvidia-a100-80gb", "h100": "nvidia-h100-80gb",
    "h200": "nvidia-h200-141gb", "b200": "nvidia-b200", "gb200": "nvidia-gb200", "gb300": "nvidia-gb300",
    "l4": "nvidia-l4",
}  # fmt: skip


def inference_class(catalog: Catalog, machine: Machine) -> dict[str, object]:
    product = catalog.products[machine.product]
    spec: dict[str, object] = {"description": _description(machine), "devices": list(_devices(machine, product))}
    if machine.cpu is not None and machine.memory is not None:
        spec["nodeResources"] = {"cpu": str(machine.cpu), "memory": machine.memory}
    if machine.provisioning is not None:
        spec["provisioning"] = _provisioning(machine)
    if machine.price is not None:
        spec["cost"] = {"pricePerNodeHour": machine.price}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceClass",
        "metadata": {"name": machine.name, "labels": _labels(machine)},
        "spec": spec,
    }


def _description(machine: Machine) -> str:
    """What it is, and how old its price is."""
    where = "" if machine.cloud == "bare" else f" of {machine.cloud} {machine.type}"
    plural = "" if machine.count == 1 else "s"
    text = f"{machine.count} {machine.product} GPU{plural}{where}."
    if machine.price is None:
        return text
    region = f" in {machine.region}" if machine.region else ""
    return f"{text} On-demand list price{region} of {machine.price_date}."


def _labels(machine: Machine) -> dict[str, str]:
    return {"modelplane.ai/gpu": machine.product} | (
        {} if machine.cloud == "bare" else {"modelplane.ai/cloud": machine.cloud}
    )


def _devices(machine: Machine, product: GpuProduct) -> tuple[dict[str, object], ...]:
    gpu: dict[str, object] = {
        "name": "gpu",
        "driver": product.driver,
        "deviceClassName": product.driver,
        "count": machine.count,
        "attributes": {"type": {"string": _TYPES[product.driver]}, **product.attributes},
        "capacity": {"memory": {"value": product.memory}},
    }
    if machine.fabric is None:
        return (gpu,)
    attributes: dict[str, object] = {"type": {"string": machine.fabric}}
    if machine.network_gbps is not None:
        attributes["gbps"] = {"int": int(machine.network_gbps)}
    return gpu, {"name": "fabric", "claim": "Synthetic", "driver": FABRIC_DRIVER, "attributes": attributes}


def _provisioning(machine: Machine) -> dict[str, object]:
    """The block of the service that makes the node, under the name that the service has for a machine type."""
    service = machine.provisioning or ""
    # Nebius has a size on a platform; a type is both.
    platform, _, preset = machine.type.partition("_")
    named = (
        {"platform": platform, "preset": preset} if service == "Nebius" else {_MACHINE_FIELDS[service]: machine.type}
    )
    return {"provider": service, service.lower(): {**named, "accelerator": _accelerator(machine)}}


def _accelerator(machine: Machine) -> dict[str, object]:
    """By Google's name on GKE, by ours elsewhere: a message may name it, and no other API takes it."""
    if machine.provisioning != "GKE":
        return {"type": machine.product, "count": machine.count}
    kind = "nvidia-h100-mega-80gb" if machine.type == "a3-megagpu-8g" else _GKE_ACCELERATORS[machine.product]
    return {"type": kind, "count": machine.count}
