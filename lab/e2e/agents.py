"""A cluster that the control plane reaches through its agent alone: adopted, serving, cut off and back.

Requests of users do not pass through the tunnel, so they are answered all the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lab.client import condition, items, name_of, text, value
from lab.e2e.commands import typed
from lab.e2e.first_token import leave
from lab.e2e.picking import address_of, ask, logged
from lab.e2e.steps import DEPLOYMENT, SERVICE, expect, install, models
from lab.e2e.world import OURS, World, conditions, running
from lab.hub import DIALLED, PROGRAM
from lab.manifests import read_folder
from modelplane import __version__
from modelplane.api.labels import AGENT_STATE, SYSTEM_NAMESPACE
from modelplane.crossplane.hub_objects import AGENT_PORT
from modelplane.views.agent_objects import AGENT, HUB_SERVER

if TYPE_CHECKING:
    from lab.client import Manifest

SITE = "east"
_GATEWAY = Path("examples/first-token")
_OK = 200
_SAYS_WITHIN_S = 240.0
_EVERY_S = 2.0
_AWAY = "AgentDisconnected"


async def agent(world: World) -> str:
    if not await world.control.list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"):
        await install(world)
    await asyncio.to_thread(world.tell, "hub")
    await asyncio.to_thread(typed, world, _add(world))
    await asyncio.to_thread(world.tell, "agent", cluster=SITE)
    told = await _lives(world)
    await leave(world)
    for program in (f"{SITE}-agent", PROGRAM):
        await asyncio.to_thread(world.tell, "hold", name=program)
    return told


def _add(world: World) -> list[str]:
    image = f"registry.example.org/team/modelplane-agent:v{__version__}"
    words = ["--kubeconfig", str(world.kubeconfigs[SITE]), "--image", image, "--apply", "--force"]
    hub = f"https://{DIALLED}:{AGENT_PORT}"
    return [sys.executable, "-m", "modelplane", "cluster", "add", SITE, "--agent", hub, *words]


async def _lives(world: World) -> str:
    ready_s = await world.ready("InferenceCluster", SITE)
    cluster = await _cluster(world)
    pools = items(cluster, "status", "gpuPools")
    expect(
        all(value(pool, "observedNodes") for pool in pools), f"the function observes nothing through the hub: {pools}"
    )
    stored = await _no_credential(world)
    for item in (*read_folder(_GATEWAY), *models()):
        await world.control.apply(item)
    await world.ready("InferenceGateway", "default")
    served_s = await world.ready("ModelDeployment", DEPLOYMENT)
    await world.ready("ModelService", SERVICE)
    await _answered(world, "lab-agent-first")
    passed = await logged(world, "lab-agent-first")
    told = (
        f"Ready {ready_s:.1f} s after its agent; {stored} Secrets, none of the cluster; served after {served_s:.1f} s"
    )
    return f"{told} by {passed.upstream}; {await _cut_off(world)}; {await _hub_killed(world)}"


async def _cluster(world: World) -> Manifest:
    found = await world.control.get(OURS, "InferenceCluster", SITE)
    expect(found is not None, f"InferenceCluster {SITE} is gone")
    return found or {}


async def _no_credential(world: World) -> int:
    """No Secret of the control plane has a token, a key or the address of the cluster; how many were read."""
    secret = await world.control.get("v1", "Secret", f"{SITE}-kubeconfig", namespace=SYSTEM_NAMESPACE)
    config = yaml.safe_load(base64.b64decode(text(secret, "data", "kubeconfig")))
    server = config["clusters"][0]["cluster"]["server"]
    expect(server == f"{HUB_SERVER}/clusters/{SITE}", f"the kubeconfig of {SITE} leads to {server}")
    access = world.sites[SITE].access
    token = await asyncio.to_thread((world.places.state / SITE / AGENT / "token").read_bytes)
    own = (token, access.server.encode(), access.pair.key if access.pair else token)
    secrets = await world.control.list("v1", "Secret")
    kept = {name_of(each): b"\n".join(_values(each)) for each in secrets}
    leaks = [name for name, content in kept.items() if any(part in content for part in own)]
    expect(not leaks, f"Secrets with something of {SITE}: {leaks}")
    return len(kept)


def _values(secret: Manifest) -> list[bytes]:
    data = value(secret, "data")
    return [base64.b64decode(str(each)) for each in data.values()] if isinstance(data, dict) else []


async def _cut_off(world: World) -> str:
    """The agent stops: conditions say so, everything stays and answers; then it comes back."""
    before = await _running(world)
    await asyncio.to_thread(world.tell, "hold", name=f"{SITE}-agent")
    asked = asyncio.create_task(_keeps_answering(world))
    try:
        said_s = await world.wait("the cluster says it", partial(_says, world), within_s=_SAYS_WITHIN_S)
        unread_s = await world.wait("replicas are unknown", partial(_unread, world), within_s=_SAYS_WITHIN_S)
        await asyncio.sleep(5 * _EVERY_S)
        expect(not asked.done(), "requests failed while the agent was away")
        expect(await _running(world) == before, f"before {before}, without an agent {await _running(world)}")
    finally:
        asked.cancel()
        await asyncio.to_thread(world.tell, "resume", name=f"{SITE}-agent")
        answered = (await asyncio.gather(asked, return_exceptions=True))[0]
    if isinstance(answered, Exception):
        raise answered
    back_s = await world.ready("InferenceCluster", SITE)
    await world.ready("ModelDeployment", DEPLOYMENT)
    expect(await _running(world) == before, f"before {before}, with the agent again {await _running(world)}")
    words = f"without its agent it says {_AWAY} after {said_s:.1f} s and its replicas after {said_s + unread_s:.1f} s"
    return f"{words}, pods and endpoints stay and answer, Ready {back_s:.1f} s after its return"


async def _keeps_answering(world: World) -> None:
    number = 0
    while True:
        await _answered(world, f"lab-agent-away-{number}")
        number += 1
        await asyncio.sleep(_EVERY_S)


async def _answered(world: World, name: str) -> None:
    answer = await ask(await address_of(world, SERVICE), DEPLOYMENT, name)
    expect(answer.status == _OK, f"{name}: status {answer.status}: {b''.join(answer.lines)[:300]!r}")


async def _says(world: World) -> bool:
    cluster = await _cluster(world)
    told = {text(each, "type"): text(each, "reason") for each in items(cluster, "status", "conditions")}
    return told.get("AgentConnected") == told.get("ClusterReady") == _AWAY and condition(cluster, "Ready") != "True"


async def _unread(world: World) -> bool:
    """Neither ready nor not: the reason is the tunnel."""
    found = [
        (text(each, "status"), text(each, "reason"))
        for replica in await world.replicas(DEPLOYMENT)
        for each in items(replica, "status", "conditions")
        if each.get("type") == "WorkloadReady"
    ]
    return bool(found) and set(found) == {("Unknown", _AWAY)}


async def _running(world: World) -> list[str]:
    """Replicas, endpoints and pods by what would differ if they were made anew."""
    ours = [*await world.replicas(DEPLOYMENT), *await world.control.list(OURS, "ModelEndpoint")]
    pods = running(await world.pods(SITE, DEPLOYMENT))
    return sorted(f"{each['kind']} {name_of(each)} {text(each, 'metadata', 'uid')}" for each in (*ours, *pods))


async def _hub_killed(world: World) -> str:
    """Kill -9: the agent dials the next one by itself."""
    since = await _since(world)
    await asyncio.to_thread(world.tell, "kill", name=PROGRAM)

    async def connected() -> bool:
        return await _since(world) > since

    waited = await world.wait("the agent at the next hub", connected, within_s=_SAYS_WITHIN_S)
    await world.ready("InferenceCluster", SITE)
    await world.ready("ModelDeployment", DEPLOYMENT)
    await _answered(world, "lab-agent-last")
    return f"{waited:.1f} s after kill -9 of the hub it is connected again: {conditions(await _cluster(world))}"


async def _since(world: World) -> float:
    written = text(await _cluster(world), "metadata", "annotations", AGENT_STATE)
    return float(json.loads(written)["since"]) if written else 0.0
