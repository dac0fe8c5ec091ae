"""A canary on genuine Crossplane, judged by what a fleet router counted: engines that fail halt it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lab.client import text, until, value
from lab.e2e.services import Door, open_door
from lab.e2e.steps import expect, remove
from lab.e2e.world import OURS

if TYPE_CHECKING:
    from lab.client import Manifest
    from lab.e2e.world import World

_EXAMPLE = Path("examples/canary/1-model.yaml")
_MODEL = "default/chat-canary"
_STEPS = [{"weight": 50, "pauseSeconds": 600}]
"""Half of the requests, so that there soon are enough of them."""
_FAULTS = {"sim.modelplane.ai/faults": "error_rate=0.9"}
_WITHIN_S = 480.0
_PAUSE_S = 0.2
_AFTER = 30
_OK = 200


async def halted(world: World) -> str:
    """A revision whose engines fail is halted, its canaries get no further request, and the rest answers all."""
    deployment, service = objects()
    async with open_door(world) as door:
        for item in (deployment, service):
            await world.control.apply(item)
        await world.ready("ModelDeployment", text(deployment, "metadata", "name"))
        await world.wait("an answer", lambda: door.answers(_MODEL), within_s=_WITHIN_S)
        template = {"workers": {"template": {"metadata": {"annotations": _FAULTS}}}}
        await world.control.patch(deployment, {"spec": template})
        seen: Counter[int] = Counter()
        asking = asyncio.create_task(_ask(door, seen))
        try:
            waited = await until("the rollout halted", lambda: _is_halted(world, deployment), within_s=_WITHIN_S)
            said = await _message(world, deployment)
            after = await _answers_again(door)
        finally:
            asking.cancel()
        await remove(world, [service, deployment])
    expect(seen[_OK], f"answers: {dict(seen)}")
    return f"halted {waited:.1f} s after the change: {said}; the next {after} requests were answered"


def objects() -> list[Manifest]:
    """The example, whose first step takes long enough to be judged."""
    deployment, service = yaml.safe_load_all(_EXAMPLE.read_text())
    deployment["spec"]["rollout"]["canary"]["steps"] = _STEPS
    return [deployment, service]


async def _ask(door: Door, seen: Counter[int]) -> None:
    while True:
        seen[(await door.post(_MODEL)).status] += 1
        await asyncio.sleep(_PAUSE_S)


async def _is_halted(world: World, deployment: Manifest) -> bool:
    found = await world.control.get(OURS, "ModelDeployment", text(deployment, "metadata", "name"))
    return value(found, "status", "rollout", "halted") is not None


async def _message(world: World, deployment: Manifest) -> str:
    found = await world.control.get(OURS, "ModelDeployment", text(deployment, "metadata", "name"))
    return text(found, "status", "rollout", "halted", "message")


async def _answers_again(door: Door) -> int:
    """How many requests in a row are answered, once the canaries get none."""
    answered = 0

    async def all_answered() -> bool:
        nonlocal answered
        answered = answered + 1 if await door.answers(_MODEL) else 0
        return answered >= _AFTER

    await until(f"{_AFTER} answers in a row", all_answered, within_s=_WITHIN_S)
    return answered
