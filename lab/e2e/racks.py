"""A rack as a unit: what the genuine scheduler does with the topology that a pool declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.client import Manifest, name_of, value
from lab.e2e.steps import expect, gang_of, remove
from lab.scenario import FailedError

if TYPE_CHECKING:
    from lab.e2e.world import World

KEY, TAINT = "nvidia.com/gpu.clique", "example.com/racks"
_MODEL, _COPIES, _NODES, _GPUS = "racked", 2, 2, 4
_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_PATIENCE_S = 240.0


async def kept(world: World, site: str) -> str:
    """Two copies over two nodes each, on racks of three: two cannot share one, and neither may straddle."""
    item = _racked()
    await world.control.apply(item)
    try:
        waited = await world.ready("ModelDeployment", _MODEL, within_s=_PATIENCE_S)
    except FailedError as error:
        pods = await world.pods(site, _MODEL)
        raise FailedError(f"{error}; pods: {', '.join(_where(pod) for pod in pods)}") from error
    racks = await _racks(world, site)
    expect(len(racks) == _COPIES, f"{len(racks)} groups")
    expect(all(len(set(each)) == 1 and len(each) == _NODES for each in racks.values()), f"straddled: {racks}")
    await remove(world, [item])
    told = "; ".join(f"group {group} in {', '.join(sorted(set(each)))}" for group, each in sorted(racks.items()))
    return f"Ready after {waited:.1f} s; {told}"


async def _racks(world: World, site: str) -> dict[str, list[str]]:
    """The racks of the pods of each group."""
    nodes = {name_of(node): _labels(node).get(KEY, "no rack") for node in await world.sites[site].list("v1", "Node")}
    found: dict[str, list[str]] = {}
    for pod in await world.pods(site, _MODEL):
        found.setdefault(_labels(pod)[_GROUP], []).append(nodes[str(value(pod, "spec", "nodeName"))])
    return found


def _racked() -> Manifest:
    """On the pool of racks alone: others do not have its GPUs, and what others run does not tolerate its taint."""
    made = gang_of(_MODEL, nodes=_NODES, gpus=_GPUS, copies=_COPIES)
    blackwell = {"cel": 'device.attributes["gpu.nvidia.com"].architecture == "Blackwell"'}
    devices = [{"name": "gpu", "count": _GPUS, "selectors": [blackwell]}]
    tolerations = [{"key": TAINT, "operator": "Exists"}]
    return {**made, "spec": {**_inner(made, "spec"), "nodeSelector": {"devices": devices}, "tolerations": tolerations}}


def _labels(item: Manifest) -> dict[str, str]:
    return {key: str(each) for key, each in _inner(item, "metadata", "labels").items()}


def _where(pod: Manifest) -> str:
    return f"{name_of(pod)} on {value(pod, 'spec', 'nodeName') or 'no node'}"


def _inner(item: object, *path: str) -> Manifest:
    found = value(item, *path)
    return dict(found) if isinstance(found, dict) else {}
