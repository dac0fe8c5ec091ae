"""A queue that does not exist: the scheduler's own words reach the people, and the model starts once there is one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lab.client import Manifest, name_of, text, until
from lab.e2e.steps import GANG_NODES, expect, gang_of, remove
from lab.e2e.world import OURS, running
from lab.manifests import read_folder

if TYPE_CHECKING:
    from pathlib import Path

    from lab.e2e.world import World

QUEUE, ABSENT = "serving", "absent"
_MODEL = "queueless"
_PATIENCE_S = 240.0


async def missing(world: World, site: str, folder: Path) -> str:
    """The cluster names a queue that its platform team makes only later."""
    item = gang_of(_MODEL, nodes=GANG_NODES)
    (cluster,) = (found for found in read_folder(folder) if found["kind"] == "InferenceCluster")
    await world.control.patch(cluster, {"spec": {"scheduling": {"queue": ABSENT}}})
    try:
        await world.control.apply(item)
        waited = await until("QueueMissing told", partial(_is_told, world), within_s=_PATIENCE_S)
        said = text(await world.control.get(OURS, "ModelDeployment", _MODEL), "status", "message")
        expect(ABSENT in said, f"the queue is not named: {said}")
        await world.sites[site].apply(late_queue(folder))
        mended = await world.ready("ModelDeployment", _MODEL, within_s=_PATIENCE_S)
        pods = running(await world.pods(site, _MODEL))
        expect(len(pods) == GANG_NODES, f"{len(pods)} pods run")
        await remove(world, [item])
    finally:
        await world.control.patch(cluster, {"spec": {"scheduling": {"queue": QUEUE}}})
        await world.sites[site].delete(late_queue(folder))
    told = f"{said[:240]}; {len(pods)} pods run and it is Ready {mended:.1f} s after the queue was made"
    return f"QueueMissing after {waited:.1f} s: {told}"


def late_queue(folder: Path) -> Manifest:
    """The fleet's queue for serving, under the name of the one that is missing."""
    (queue,) = (item for item in read_folder(folder / "cluster") if name_of(item) == QUEUE)
    return {**queue, "metadata": {"name": ABSENT}}


async def _is_told(world: World) -> bool:
    """On the replica and on the deployment."""
    above = await world.control.get(OURS, "ModelDeployment", _MODEL)
    told = [*await world.replicas(_MODEL), *([above] if above else ())]
    return len(told) > 1 and {text(each, "status", "reason") for each in told} == {"QueueMissing"}
