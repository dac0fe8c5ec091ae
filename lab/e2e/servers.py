"""Function servers in trouble: two at once behind Crossplane, and one whose watches of the control plane stop."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import aiohttp

from lab.client import condition, name_of, text, until
from lab.cluster import LOOPBACK
from lab.control import FUNCTION_PORT
from lab.e2e.commands import typed
from lab.e2e.steps import DEPLOYMENT, expect
from lab.e2e.world import OURS, clusters_of, running
from lab.function_servers import SECOND, Servers
from lab.scenario import FailedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab.client import Manifest
    from lab.e2e.world import World

_WITHIN_S = 300.0
_QUIET_S = 10.0
_ROUNDS = 9
_EVERY_S = 1.0
_CALLS = re.compile(r'^modelplane_function_calls_total\{.*outcome="composed"\} ([0-9.]+)$', re.MULTILINE)


async def pair(world: World) -> str:
    """Both answer while replicas are added and one server dies; no replica is lost or made twice, and it goes quiet."""
    async with _served_by(world, Servers.TWO), _Watched(world) as seen:
        await until("both servers called", _both_are_called, within_s=_WITHIN_S)
        first = await _grown(world)
        await asyncio.to_thread(world.tell, "kill", name="function-second")
        await _grown(world)
        await until("both servers called again", _both_are_called, within_s=_WITHIN_S)
        await _until_quiet(world)
        calls = [await _calls(host) for host in (LOOPBACK, SECOND)]
    expect(not seen.lost, f"lost: {seen.lost}")
    expect(not seen.extra, f"more than were asked for: {seen.extra[:3]}")
    return (
        f"{calls[0]} and {calls[1]} calls; one more replica after {first:.1f} s, one more while a server died; none is "
        f"lost or doubled, and nothing is written for {_QUIET_S:.0f} s"
    )


async def watch_stops(world: World) -> str:
    """What changes while nothing is heard of the control plane is done all the same, and what serves stays."""
    async with _served_by(world, Servers.VALVED), _Watched(world) as seen:
        cordoned = min(clusters_of(await world.replicas(DEPLOYMENT)).values())
        await asyncio.to_thread(world.tell, "valve", state="shut")
        try:
            await _cordon(world, cordoned, cordoned=True)
            blind = await _grown(world)
            await asyncio.sleep(_QUIET_S)
        finally:
            await asyncio.to_thread(world.tell, "valve", state="open")
        known = {name_of(each) for each in await world.replicas(DEPLOYMENT)}
        after = await _grown(world)
        new = [each for each in await world.replicas(DEPLOYMENT) if name_of(each) not in known]
        await _cordon(world, cordoned, cordoned=False)
    expect(not seen.lost, f"lost: {seen.lost}")
    where = {text(each, "spec", "clusterName") for each in new}
    expect(not seen.extra, f"more than were asked for: {seen.extra[:3]}")
    expect(where and cordoned not in where, f"{cordoned} was cordoned meanwhile and got {clusters_of(new)}")
    return (
        f"one more replica {blind:.1f} s after the watches stopped, one more {after:.1f} s after they went on, not on "
        f"{cordoned}, which was cordoned meanwhile; nothing that served left"
    )


@asynccontextmanager
async def _served_by(world: World, servers: Servers) -> AsyncIterator[None]:
    await asyncio.to_thread(world.tell, "functions", servers=servers.value, mode=world.mode)
    try:
        yield
    finally:
        await asyncio.to_thread(world.tell, "functions", servers=Servers.ONE.value, mode=world.mode)


class _Watched:
    """Looks every second whether a replica that was there left, and whether there are more than were asked for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._there: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self.lost: list[str] = []
        self.extra: list[str] = []

    async def __aenter__(self) -> Self:
        self._there = {text(each, "metadata", "uid") for each in await self._staying()}
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            found = await self._staying()
            left = self._there - {text(each, "metadata", "uid") for each in found}
            self.lost += sorted(left - set(self.lost))
            above = await self._world.control.get(OURS, "ModelDeployment", DEPLOYMENT)
            # Its count only grows here, so what is read after the replicas cannot be too small.
            if len(found) > int(text(above, "spec", "replicas")):
                self.extra.append(", ".join(clusters_of(found)))
            await asyncio.sleep(_EVERY_S)

    async def _staying(self) -> list[Manifest]:
        found = await self._world.replicas(DEPLOYMENT)
        return [each for each in found if not text(each, "metadata", "deletionTimestamp")]


async def _grown(world: World) -> float:
    """One more replica, by kubectl; how long until it serves."""
    wanted = len(await world.replicas(DEPLOYMENT)) + 1
    await asyncio.to_thread(typed, world, ["kubectl", "scale", "modeldeployment", DEPLOYMENT, f"--replicas={wanted}"])

    async def serves() -> bool:
        found = await world.control.get(OURS, "ModelDeployment", DEPLOYMENT)
        pods = [pod for _, pod in await world.all_pods(DEPLOYMENT)]
        ready = condition(found, "Ready") == "True" and len(await world.replicas(DEPLOYMENT)) == wanted
        return ready and len(running(pods)) == len(pods) == wanted

    return await until(f"{wanted} replicas", serves, within_s=_WITHIN_S)


async def _cordon(world: World, cluster: str, *, cordoned: bool) -> None:
    named: Manifest = {"apiVersion": OURS, "kind": "InferenceCluster", "metadata": {"name": cluster}}
    await world.control.patch(named, {"spec": {"cordoned": cordoned}})


async def _both_are_called() -> bool:
    return all([await _calls(host) for host in (LOOPBACK, SECOND)])


async def _calls(host: str) -> int:
    address = f"http://{host}:{FUNCTION_PORT + 1}/metrics"
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return int(sum(map(float, _CALLS.findall(await answer.text()))))


async def _until_quiet(world: World) -> None:
    """Returns when none of our objects is written for a while."""
    changed: list[str] = []
    for _ in range(_ROUNDS):
        before = await _versions(world)
        await asyncio.sleep(_QUIET_S)
        after = await _versions(world)
        changed = [name for name, version in after.items() if before.get(name) != version]
        if not changed:
            return
    raise FailedError(f"written again and again: {', '.join(changed)}")


async def _versions(world: World) -> dict[str, str]:
    kinds = ("InferenceCluster", "ModelDeployment", "ModelReplica", "ModelEndpoint", "ModelService")
    return {
        f"{kind} {name_of(each)}": text(each, "metadata", "resourceVersion")
        for kind in kinds
        for each in await world.control.list(OURS, kind)
    }
