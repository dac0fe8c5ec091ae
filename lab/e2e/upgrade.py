"""Steps in which the product itself comes and goes: an upgrade under traffic, and the end as the docs have it."""

from __future__ import annotations

import asyncio
import re
import shlex
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from lab.client import Manifest, name_of, text, value
from lab.e2e.commands import typed
from lab.e2e.steps import DEPLOYMENT, SERVICE, expect
from lab.e2e.world import OURS
from lab.upgrade import NEXT_PORT
from modelplane.api.labels import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from lab.e2e.world import World

UNINSTALL = Path("docs/operations/uninstall.md")
_OK = 200
_ASK_S = 0.25
_PART_OF = "app.kubernetes.io/part-of=modelplane"


@dataclass(slots=True)
class Traffic:
    """What requests came to."""

    answered: int = 0
    failed: list[str] = field(default_factory=list)


async def upgrade(world: World) -> str:
    """Nothing that serves is touched, no request fails, and the new server answers for every composite that changes."""
    before = await serving(world)
    async with requests(world) as traffic:
        told = await asyncio.to_thread(world.tell, "upgrade", mode=world.mode)
        mark = {"metadata": {"annotations": {"example.org/touched": str(told["version"])}}}
        deployment: Manifest = {"apiVersion": OURS, "kind": "ModelDeployment", "metadata": {"name": DEPLOYMENT}}
        await world.control.patch(deployment, mark)
        await world.wait("the new function server called", is_next_called)
        await world.ready("ModelDeployment", DEPLOYMENT)
    after = await serving(world)
    expect(before == after, f"was {sorted(before)}, is {sorted(after)}")
    expect(traffic.answered, "no request was answered")
    expect(not traffic.failed, f"{len(traffic.failed)} of {traffic.answered} requests: {traffic.failed[:3]}")
    return f"to {told['version']}: {len(after)} pods and replicas untouched, {traffic.answered} requests, none failed"


async def serving(world: World) -> set[tuple[str, str, str]]:
    """Replicas and pods by identity; a pod that was restarted or replaced has another."""
    replicas = {("control", name_of(each), text(each, "metadata", "uid")) for each in await world.replicas(DEPLOYMENT)}
    pods = {(site, name_of(pod), text(pod, "metadata", "uid")) for site, pod in await world.all_pods(DEPLOYMENT)}
    return replicas | pods


async def is_next_called() -> bool:
    return await calls(NEXT_PORT) > 0


async def calls(port: int) -> float:
    """How often a function server has composed a ModelDeployment."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port + 1}/metrics") as answer:
        page = await answer.text()
    found = re.search(
        r'^modelplane_function_calls_total\{kind="ModelDeployment",outcome="composed"\} (\S+)', page, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


@asynccontextmanager
async def requests(world: World) -> AsyncIterator[Traffic]:
    """Requests to the service, one after the other, for as long as the body lasts."""
    service = await world.control.get(OURS, "ModelService", SERVICE)
    traffic = Traffic()
    asking = asyncio.create_task(_ask(text(service, "status", "address"), traffic))
    try:
        yield traffic
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(address: str, traffic: Traffic) -> None:
    body = {"model": DEPLOYMENT, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(f"{address}/v1/chat/completions", json=body) as answer:
                    said = await answer.text()
            except (aiohttp.ClientError, OSError) as error:
                traffic.failed.append(f"{type(error).__name__}: {error}")
            else:
                traffic.answered += 1
                if answer.status != _OK:
                    traffic.failed.append(f"{answer.status}: {said[:200]}")
            await asyncio.sleep(_ASK_S)


async def uninstall(world: World) -> str:
    """Types what the docs say, then looks for anything of ours."""
    for command in documented(UNINSTALL.read_text()):  # noqa: ASYNC240 - one small file
        world.say(f"  {shlex.join(command)}")
        await asyncio.to_thread(typed, world, command)
    return await nothing_is_left(world)


async def nothing_is_left(world: World) -> str:
    """After the last command of an uninstallation."""

    async def nothing() -> bool:
        return not await left_of_us(world)

    try:
        waited = await world.wait("nothing left", nothing)
    finally:
        left = await left_of_us(world)
    expect(not left, f"left: {', '.join(left)}")
    return f"nothing of ours left {waited:.1f} s after the last command"


def documented(page: str) -> Iterator[list[str]]:
    """The commands of the page's first block, without what it says about them."""
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in (block.group(1) if block else "").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            yield words[:end]
            words = words[end + 1 :]


async def left_of_us(world: World) -> list[str]:
    """Kinds, packages, rights and namespaces of ours on the control cluster; tenants and gateways on the others."""
    api = world.control
    kinds = await api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    found = [name_of(each) for each in kinds if text(each, "spec", "group") == "modelplane.ai"]
    for version, kind in _OURS:
        labelled = await api.list(version, kind, labels=_PART_OF)
        found += [f"{kind} {name_of(each)}" for each in labelled if kind != "Provider"]
    revisions = await api.list("pkg.crossplane.io/v1", "FunctionRevision")
    found += [f"revision {name_of(each)}" for each in revisions]
    for site, other in world.sites.items():
        spaces = await other.list("v1", "Namespace")
        found += [f"{site} {name_of(each)}" for each in spaces if _is_tenant(each)]
        gateways = await other.list("gateway.networking.k8s.io/v1", "Gateway", namespace=SYSTEM_NAMESPACE)
        found += [f"{site} Gateway {name_of(each)}" for each in gateways]
    return found


_OURS = (
    ("v1", "Namespace"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("pkg.crossplane.io/v1", "Function"),
    ("pkg.crossplane.io/v1", "Configuration"),
)


def _is_tenant(namespace: Manifest) -> bool:
    labels = value(namespace, "metadata", "labels")
    return isinstance(labels, dict) and any(key.startswith("modelplane.ai/") for key in labels)
