"""CPU and memory of the containers of a pod: what they request themselves, and the engine what is left of the share.

What users wrote stays. An engine that requests no CPU, or no memory, requests what the other containers leave of the
pod's share of its node. A limit without a request counts as one, as API servers read it. Our own containers beside the
engine request a little too, so that a pod is not the first to be evicted for them.

A share that the other containers use up is none, and a queue that has no quota of CPU or memory admits no pod that
requests some: there nothing is added.
"""

from collections.abc import Mapping, Sequence

from modelplane.api.labels import ENGINE_CONTAINER, ROUTING_SIDECAR_CONTAINER, WARM_UP_CONTAINER
from modelplane.api.models import NodeResources
from modelplane.api.objects import mapping_at
from modelplane.compose.node_share import cpu_millis, cpu_text, memory_bytes, memory_text

_OURS: Mapping[str, Mapping[str, str]] = {
    ROUTING_SIDECAR_CONTAINER: {"cpu": "500m", "memory": "256Mi"},
    WARM_UP_CONTAINER: {"cpu": "50m", "memory": "128Mi"},
}
_Container = dict[str, object]


def with_requests(
    containers: Sequence[_Container], share: NodeResources | None, others: Sequence[str] = ()
) -> list[_Container]:
    """The containers of one pod. `share`: None leaves them as they are. `others` of ours are added to the pod later."""
    if share is None:
        return list(containers)
    given = [own_requests(container, share) for container in containers]
    # What the engine requests itself counts, too: there it gets nothing of what is left.
    counted = [*given, *(own_requests({"name": name}, share) for name in others)]
    cpu = cpu_text(cpu_millis(share.cpu) - sum(cpu_millis(_requested(each, "cpu")) for each in counted))
    memory = memory_text(memory_bytes(share.memory) - sum(memory_bytes(_requested(each, "memory")) for each in counted))
    left = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None}
    return [_requesting(each, left) if each["name"] == ENGINE_CONTAINER else each for each in given]


def own_requests(container: _Container, share: NodeResources | None) -> _Container:
    """A container of ours with its requests, in a pod that has a share."""
    return _requesting(container, _OURS.get(str(container["name"]), {})) if share is not None else container


def with_least(containers: Sequence[_Container], least: Mapping[str, str]) -> list[_Container]:
    """The engine requests the least, in a pod whose containers request neither CPU nor memory."""
    found = [_requested(container, name) for container in containers for name in ("cpu", "memory")]
    if not least or any(value is not None for value in found):
        return list(containers)
    return [_requesting(each, least) if each["name"] == ENGINE_CONTAINER else each for each in containers]


def _requesting(container: _Container, added: Mapping[str, str]) -> _Container:
    """With requests for what it does not request or limit itself."""
    missing = {name: text for name, text in added.items() if _requested(container, name) is None}
    if not missing:
        return container
    resources = mapping_at(container, "resources")
    requests = mapping_at(container, "resources", "requests")
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _requested(container: _Container, name: str) -> object:
    requests, limits = (mapping_at(container, "resources", kind) for kind in ("requests", "limits"))
    return requests.get(name, limits.get(name))
