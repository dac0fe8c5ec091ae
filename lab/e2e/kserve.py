"""Replicas under genuine KServe: what we compose becomes pods by its controller, its presets and its webhooks.

Requests travel to them through both gateways. The containers of KServe's own pods, the endpoint picker and the routing
sidecar, are played by ours with the flags of its presets.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Manifest, items, name_of, text, until, value
from lab.cluster import answers
from lab.e2e import steps
from lab.e2e.picking import PROMPT, address_of, ask, divided, logged, prefilled
from lab.e2e.steps import adopt, cordon, expect, gang_of, remains_of_models, remove
from lab.e2e.world import OURS, World
from lab.manifests import read_folder
from lab.scenario import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.scenario import Scenario

FLEET = Path("lab/fleets/kserve")
SITE = "kserve"
_KSERVE, _SERVICE = "serving.kserve.io/v1alpha2", "LLMInferenceService"
_COMPONENT = "app.kubernetes.io/component"
_PICKER_POD = "llminferenceservice-router-scheduler"
_PATIENCE_S = 300.0
_OK = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """A model, and what KServe is to make of it: pods by their component."""

    deployment: str
    model: str
    objects: tuple[Manifest, ...]
    pods: dict[str, int]


def _one_node() -> Shape:
    made = _sized("small", {"tensor": 1}, gpus=1)
    return Shape("small", "example/big", (made, _selecting("small")), {"llminferenceservice-workload": 1})


def _nodes() -> Shape:
    made = gang_of("big", nodes=2)
    parts = {"llminferenceservice-workload-leader": 1, "llminferenceservice-workload-worker": 1}
    return Shape("big", "example/big", (_labelled(made, "big"), _selecting("big")), parts)


def _ranks() -> Shape:
    made = _sized("experts", {"tensor": 1, "data": 16, "dataLocal": 8, "expert": True}, gpus=8)
    parts = {"llminferenceservice-workload-leader": 1, "llminferenceservice-workload-worker": 1}
    return Shape("experts", "example/big", (made, _selecting("experts")), parts)


def _phases() -> Shape:
    parts = {"llminferenceservice-workload": 2, "llminferenceservice-workload-prefill": 2, _PICKER_POD: 1}
    return Shape("qwen3-32b", "qwen3-32b", tuple(divided()), parts)


def _sized(name: str, topology: Manifest, *, gpus: int) -> Manifest:
    made = _labelled(gang_of(name, nodes=1, gpus=gpus), name)
    spec = _inner(made, "spec")
    return {**made, "spec": {**spec, "workers": {**_inner(spec, "workers"), "topology": topology}}}


def _labelled(made: Manifest, app: str) -> Manifest:
    return {**made, "spec": {**_inner(made, "spec"), "labels": {"app": app}}}


def _selecting(app: str) -> Manifest:
    spec: Manifest = {"endpoints": [{"selector": {"matchLabels": {"app": app}}}]}
    return {
        "apiVersion": OURS,
        "kind": "ModelService",
        "metadata": {"name": app, "namespace": "default"},
        "spec": spec,
    }


async def run(scenario: Scenario, world: World, only: frozenset[str]) -> None:
    """`only` names steps by their function's name; none means all."""
    for name, action, needed in (
        ("packages through the real package manager", steps.install, True),
        ("the cluster is seen", seen, True),
        ("an engine on one node", one_node, False),
        ("an engine over two nodes", nodes, False),
        ("ranks over two nodes", ranks, False),
        ("prefill and decode apart", phases, False),
        ("everything is deleted", removal, False),
    ):
        if not only or action.__name__ in only:
            await scenario.step(name, partial(action, world), needed=needed)


async def seen(world: World) -> str:
    waited = await adopt(world, _platform())
    return f"Ready after {waited:.1f} s"


def _platform() -> list[Manifest]:
    return read_folder(FLEET)


async def one_node(world: World) -> str:
    return await _served(world, _one_node())


async def nodes(world: World) -> str:
    return await _served(world, _nodes())


async def ranks(world: World) -> str:
    """Its presets add capabilities that Baseline forbids: the level of the namespace follows the backend."""
    return await _served(world, _ranks())


async def phases(world: World) -> str:
    """KServe's own picker and sidecar: a prefill pod computes the prompt, and a decode pod answers."""
    return await _served(world, _phases())


async def _served(world: World, shape: Shape) -> str:
    """A replica that is Ready, pods as expected, a request that one of them answers; then nothing is left."""
    for item in shape.objects:
        await world.control.apply(item)
    try:
        return await _answers(world, shape)
    finally:
        await remove(world, shape.objects)
        await until("the pods gone", partial(_gone, world, shape.deployment), within_s=_PATIENCE_S)


async def _answers(world: World, shape: Shape) -> str:
    service = next(name_of(item) for item in shape.objects if item["kind"] == "ModelService")
    try:
        waited = await world.ready("ModelDeployment", shape.deployment, within_s=_PATIENCE_S)
        await world.ready("ModelService", service, within_s=_PATIENCE_S)
    except FailedError as error:
        raise FailedError(f"{error}; KServe: {await _said(world)}") from error
    pods = await _pods(world, shape.deployment)
    counted = _counted(pods)
    expect(counted == shape.pods, f"pods: {counted}")
    await _listening(world, pods)
    answer = await ask(await address_of(world, service), shape.model, f"lab-{service}", prompt=PROMPT, stream=True)
    expect(answer.status == _OK, f"status {answer.status}: {b''.join(answer.lines)[:300]!r}")
    expect(answer.events[-1:] == [b"data: [DONE]"], f"the stream ended with {answer.events[-1:]!r}")
    told = ", ".join(f"{number} {name.removeprefix('llminferenceservice-')}" for name, number in counted.items())
    return f"Ready after {waited:.1f} s: {told}; {await _way(world, shape, f'lab-{service}', pods)}"


async def _way(world: World, shape: Shape, request: str, pods: Sequence[Manifest]) -> str:
    """Which pod answered. Where KServe has a picker, the one that it named, with the prompt of a prefill pod."""
    passed = await logged(world, request)
    if _PICKER_POD not in shape.pods:
        return f"{passed.upstream} answered"
    expect(
        passed.picked == passed.upstream, f"{passed.upstream} answered, the picker said {passed.picked or 'nothing'}"
    )
    computed = await prefilled(pods)
    expect(computed, f"no prefill pod computed the prompt for {passed.upstream}, which answered")
    return f"{', '.join(computed)} computed the prompt, {passed.upstream} answered, as the picker said"


async def _pods(world: World, deployment: str) -> list[Manifest]:
    return await world.sites[SITE].list("v1", "Pod", labels=f"modelplane.ai/deployment={deployment}")


def _counted(pods: Sequence[Manifest]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in pods:
        part = text(pod, "metadata", "labels", _COMPONENT)
        found[part] = found.get(part, 0) + (text(pod, "status", "phase") == "Running")
    return found


async def _listening(world: World, pods: Sequence[Manifest]) -> None:
    """KWOK calls pods ready before anything runs in them; real ones would not be."""
    for pod in pods:
        address, part = text(pod, "status", "podIP"), text(pod, "metadata", "labels", _COMPONENT)
        if part == _PICKER_POD:
            await world.wait(name_of(pod), answers(f"http://{address}:9090/readyz"))
        elif not part.endswith("-worker"):
            await world.wait(name_of(pod), answers(f"http://{address}:8000/health"))


async def _gone(world: World, deployment: str) -> bool:
    return not await _pods(world, deployment)


async def _said(world: World) -> str:
    """Conditions of the services that do not hold, and warnings of the cluster."""
    api = world.sites[SITE]
    told = [
        f"{name_of(service)} {text(each, 'type')}: {text(each, 'message')}"
        for service in await api.list(_KSERVE, _SERVICE)
        for each in items(service, "status", "conditions")
        if each.get("status") != "True"
    ]
    told += [text(each, "message") for each in await api.list("v1", "Event") if each.get("type") == "Warning"]
    return "; ".join(dict.fromkeys(told))[:2000] or "nothing"


async def removal(world: World) -> str:
    began = asyncio.get_running_loop().time()

    async def empty() -> bool:
        services = await world.sites[SITE].list(_KSERVE, _SERVICE)
        return not services and not await remains_of_models(world)

    await until("nothing left", empty, within_s=_PATIENCE_S)
    await cordon(world, _platform())
    await remove(world, [item for item in _platform() if item["kind"] != "InferenceClass"])
    await remove(world, [item for item in _platform() if item["kind"] == "InferenceClass"])
    return f"nothing left after {asyncio.get_running_loop().time() - began:.1f} s"


def _inner(item: object, *path: str) -> Manifest:
    found = value(item, *path)
    return dict(found) if isinstance(found, dict) else {}
