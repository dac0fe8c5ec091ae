"""A drain on genuine components, by the commands that users type: begun and ended, then to its end."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from lab.client import condition, text, until, value
from lab.e2e.commands import typed
from lab.e2e.endpoints import EndpointCount
from lab.e2e.steps import DEPLOYMENT, expect
from lab.e2e.world import OURS, clusters_of

if TYPE_CHECKING:
    from lab.e2e.world import World

_WITHIN_S = 300.0


async def drain(world: World) -> str:
    """A drain that is ended moves nothing more; another goes on until the cluster is empty. Endpoints never lack."""
    cluster = max(clusters_of(await world.replicas(DEPLOYMENT)).values())
    before = await _serving(world)
    async with EndpointCount(world, DEPLOYMENT, len(before)) as endpoints:
        try:
            await _drain(world, cluster, "--at-a-time", "1")
            await _drain(world, cluster, "--abort")
            await until("the drain ended", lambda: _is_drained(world, cluster, ""), within_s=_WITHIN_S)
            began = asyncio.get_running_loop().time()
            shown = await _drain(world, cluster, "--wait", "--timeout", f"{_WITHIN_S:.0f}s")
            await until("every replica elsewhere", lambda: _is_empty(world, cluster, len(before)), within_s=_WITHIN_S)
            took = asyncio.get_running_loop().time() - began
        finally:
            await _drain(world, cluster, "--abort")
    expect(endpoints.fewest >= len(before), f"only {endpoints.fewest} endpoints during the drain")
    await until("the drain ended", lambda: _is_drained(world, cluster, ""), within_s=_WITHIN_S)
    kept = len(before & await _serving(world))
    return (
        f"{cluster} is empty after {took:.1f} s, with {endpoints.fewest} endpoints or more; {kept} of {len(before)} "
        f"replicas stayed; {shown.splitlines()[-1]}"
    )


async def _drain(world: World, cluster: str, *words: str) -> str:
    kubeconfig = str(world.kubeconfigs["control"])
    command = [sys.executable, "-m", "modelplane", "drain", "cluster", cluster, *words, "--kubeconfig", kubeconfig]
    return await asyncio.to_thread(typed, world, command)


async def _serving(world: World) -> set[str]:
    return {
        text(each, "metadata", "uid")
        for each in await world.replicas(DEPLOYMENT)
        if not text(each, "metadata", "deletionTimestamp")
    }


async def _is_drained(world: World, cluster: str, status: str) -> bool:
    """Whether the condition has this status; none, where there is no drain."""
    found = await world.control.get(OURS, "InferenceCluster", cluster)
    if not status:
        return value(found, "spec", "drain") is None and condition(found, "Drained") in {"", "Unknown"}
    return condition(found, "Drained") == status


async def _is_empty(world: World, cluster: str, count: int) -> bool:
    placed = clusters_of(await world.replicas(DEPLOYMENT))
    return len(placed) == count and cluster not in placed.values() and not await world.pods(cluster, DEPLOYMENT)
