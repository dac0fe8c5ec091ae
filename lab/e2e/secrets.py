"""Secrets on genuine components: copied, changed and removed, and no value where it does not belong."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from lab.client import Manifest, condition, name_of, text, until, value
from lab.e2e.steps import expect
from lab.e2e.world import OURS
from lab.manifests import read_folder

if TYPE_CHECKING:
    from lab.e2e.world import World

GATED = Path("examples/gated")
DEPLOYMENT, SECRET = "llama-3-8b", "hf-token"
_OBJECTS = "kubernetes.m.crossplane.io/v1alpha1"
_COPIED = "modelplane.ai/copied-from"
_OLD, _NEW = "first-canary", "second-canary"
_WITHIN_S = 240.0


async def gated(world: World) -> str:
    """Pods wait for the Secret, follow it, and its values are in no other object of the control cluster."""
    for item in read_folder(GATED):
        await world.control.apply(item)
    waited = await until("SecretMissing", lambda: _says(world, "SecretMissing"), within_s=_WITHIN_S)
    expect(not await world.all_pods(DEPLOYMENT), "pods were created before their Secret")
    await world.control.apply(_secret(_OLD))
    started = await world.ready("ModelDeployment", DEPLOYMENT)
    sites = await _copies(world)
    expect(set(sites.values()) == {_OLD}, f"copies: {sites}")
    await world.control.apply(_secret(_NEW))
    changed = await until("the change on every cluster", lambda: _is_copied(world, _NEW), within_s=_WITHIN_S)
    await _expect_no_value(world)
    await world.control.delete(_secret(_NEW))
    expect(await world.control.get("v1", "Secret", SECRET) is None, "the deletion of the Secret hangs")
    await until("SecretMissing again", lambda: _says(world, "SecretMissing"), within_s=_WITHIN_S)
    expect(set((await _copies(world)).values()) == {_NEW}, "a copy left with its original")
    for item in read_folder(GATED):
        await world.control.delete(item)
    await until("no copy", lambda: _are_gone(world), within_s=_WITHIN_S)
    return (
        f"SecretMissing after {waited:.1f} s, Ready {started:.1f} s after it was there, a change on {len(sites)} "
        f"clusters after {changed:.1f} s; no value in any Object; the copies left with the replicas"
    )


def _secret(token: str) -> Manifest:
    data = {"HF_TOKEN": base64.b64encode(token.encode()).decode()}
    metadata = {"name": SECRET, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


async def _says(world: World, reason: str) -> bool:
    found = await world.replicas(DEPLOYMENT)
    return bool(found) and all(_reason(item) == reason for item in found)


def _reason(item: Manifest) -> str:
    conditions = value(item, "status", "conditions")
    found = [each for each in conditions if each.get("type") == "SecretsReady"] if isinstance(conditions, list) else []
    return text(found[0], "reason") if found else ""


async def _copies(world: World) -> dict[str, str]:
    """The token of each copy, by cluster and name."""
    found: dict[str, str] = {}
    for site, api in world.sites.items():
        for item in await api.list("v1", "Secret"):
            if value(item, "metadata", "annotations", _COPIED) == f"default/{SECRET}":
                found[f"{site}/{name_of(item)}"] = base64.b64decode(text(item, "data", "HF_TOKEN")).decode()
    return found


async def _is_copied(world: World, token: str) -> bool:
    return set((await _copies(world)).values()) == {token}


async def _are_gone(world: World) -> bool:
    return not await _copies(world) and not await world.replicas(DEPLOYMENT)


async def _expect_no_value(world: World) -> None:
    objects = await world.control.list(_OBJECTS, "Object")
    filling = [item for item in objects if value(item, "spec", "references")]
    expect(filling, "no Object fills a copy")
    expect(all(condition(item, "Synced") == "True" for item in filling), "an Object that fills a copy is not Synced")
    for kind in ("ModelReplica", "ModelDeployment", "ModelEndpoint"):
        objects += await world.control.list(OURS, kind)
    objects += await world.control.list("v1", "Event")
    leaks = [name_of(item) for item in objects if _has_value(item)]
    expect(not leaks, f"values in {', '.join(leaks)}")


def _has_value(item: Manifest) -> bool:
    shown = json.dumps(item)
    tokens = (_OLD, _NEW)
    return any(token in shown or base64.b64encode(token.encode()).decode() in shown for token in tokens)
