"""An update on genuine components, by the commands that users type: surge, history, undo, pause."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from lab.client import items, name_of, text, value
from lab.e2e.commands import typed
from lab.e2e.steps import DEPLOYMENT, REPLICAS, expect
from lab.e2e.world import OURS

if TYPE_CHECKING:
    from lab.client import Manifest
    from lab.e2e.world import World

_WATCH = ("--watch", "--timeout", "480")


async def update(world: World) -> str:
    """A restart by surge never has fewer endpoints; it is then undone while it is not paused."""
    began = asyncio.get_running_loop().time()
    before = await _staying(world)
    await _patch(world, {"strategy": "Surge"})
    await _rollout(world, "restart")
    fewest = await _fewest_endpoints(world, asyncio.create_task(_rollout(world, "status", *_WATCH)))
    expect(fewest >= REPLICAS, f"only {fewest} endpoints during the update")
    kept = before.keys() & (await _staying(world)).keys()
    expect(not kept, f"{len(kept)} replicas were not replaced")
    surged = asyncio.get_running_loop().time() - began
    expect(await _revisions(world) == [1, 2], f"revisions: {await _revisions(world)}")
    await _rollout(world, "pause")
    await _rollout(world, "resume")
    await _rollout(world, "undo")
    await _rollout(world, "status", *_WATCH)
    expect(await _revisions(world) == [2, 3], f"revisions: {await _revisions(world)}")
    hashes = set((await _staying(world)).values())
    status = value(await _deployment(world), "status", "rollout")
    expect(hashes == {text(status, "hash")}, f"replicas have {hashes}, the newest revision is {status}")
    return f"{REPLICAS} replicas replaced in {surged:.1f} s with {fewest} endpoints at the least; undone to revision 1"


async def _staying(world: World) -> dict[str, object]:
    """The revision of each replica that is not being deleted, by uid."""
    return {
        text(each, "metadata", "uid"): value(each, "metadata", "labels", "modelplane.ai/revision")
        for each in await world.replicas(DEPLOYMENT)
        if not text(each, "metadata", "deletionTimestamp")
    }


async def _rollout(world: World, verb: str, *words: str) -> None:
    kubeconfig = str(world.kubeconfigs["control"])
    command = [sys.executable, "-m", "modelplane", "rollout", verb, f"md/{DEPLOYMENT}", *words]
    await asyncio.to_thread(typed, world, [*command, "--kubeconfig", kubeconfig])


async def _patch(world: World, rollout: Manifest) -> None:
    await world.control.patch(await _deployment(world), {"spec": {"rollout": rollout}})


async def _deployment(world: World) -> Manifest:
    found = await world.control.get(OURS, "ModelDeployment", DEPLOYMENT)
    expect(found, f"there is no ModelDeployment {DEPLOYMENT}")
    return found or {}


async def _fewest_endpoints(world: World, watching: asyncio.Task[None]) -> int:
    fewest = REPLICAS
    while not watching.done():
        found = await world.control.list(OURS, "ModelEndpoint", namespace="default")
        fewest = min(fewest, sum(name_of(item).startswith(DEPLOYMENT) for item in found))
        await asyncio.sleep(1.0)
    await watching
    return fewest


async def _revisions(world: World) -> list[object]:
    return [each.get("revision") for each in items(await _deployment(world), "status", "revisions")]
