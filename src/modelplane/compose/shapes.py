"""How a topology splits one engine over pods and devices: the one place that counts them."""

from modelplane.api.labels import ENGINE_CONTAINER
from modelplane.api.models import PodTemplate, Topology


def spans_ranks(topology: Topology) -> bool:
    """Whether data-parallel ranks are on several nodes."""
    return topology.data_local is not None and topology.data_local < topology.data


def spans_tensor(topology: Topology) -> bool:
    """Whether one copy of a layer is on several nodes."""
    return topology.tensor_local is not None and topology.tensor_local < topology.tensor


def node_count(topology: Topology) -> int:
    """Nodes of one copy of the engine."""
    tensor = topology.tensor // (topology.tensor_local or topology.tensor)
    data = topology.data // (topology.data_local or topology.data)
    return tensor * topology.pipeline * data


def devices_of_pod(topology: Topology) -> int:
    """Devices that the engine is told to use in each pod."""
    return (topology.tensor_local or topology.tensor) * (topology.data_local or topology.data)


def has_own_command(template: PodTemplate) -> bool:
    """Whether the engine is told nothing by us."""
    return any(found.name == ENGINE_CONTAINER and found.command for found in template.spec.containers)


def shape_fault(topology: Topology, requested: int) -> str | None:
    """Why pods that request so many devices cannot hold the engine."""
    wanted = devices_of_pod(topology)
    if wanted <= requested:
        return None
    each = topology.tensor_local or topology.tensor
    local = topology.data_local or topology.data
    said = f"tensorLocal {each}" if spans_tensor(topology) else f"tensor {each}"
    ranks = f" for each of {local} ranks" if local > 1 else ""
    return f"{said}{ranks} needs {wanted} devices in a pod; nodeSelector requests {requested}"
