"""Every object that the renderer is known to make, offered to a real API server with the real definitions.

The server is asked to validate strictly (a field it does not know is an error, not something to drop) and to store
nothing. Its answer is compared with what was sent: a value that comes back changed is a value that a controller would
never see as rendered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lab.client import APPLY, Api, ApiError, Manifest, items, name_of, namespace_of, text, until
from lab.components import GROVE, KAI, KSERVE, KUEUE, VOLCANO
from lab.manifests import read_folder
from lab.oracles.copies import with_data
from lab.oracles.finding import Difference, Finding
from lab.oracles.removal import remove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.manifests import Sources

DEFINITIONS = (
    (KUEUE, "config/components/crd/bases"),
    (KAI, "deployments/kai-scheduler/crds"),
    (VOLCANO, "config/crd/volcano/bases"),
    (KSERVE, "config/crd/full/llmisvc"),
    (GROVE, "core/v1alpha1/crds"),
)
_MANAGER = "golden"
_KNOWN = (
    (
        "scheduling.run.ai/v2alpha2",
        ".spec.stalenessGracePeriod: field not declared in schema",
        f"rendered for KAI v0.17; {KAI.version} is the newest that can be had as a module, and lacks the field",
    ),
    (
        "resource.nvidia.com/v1beta1",
        "404 page not found",
        "NVIDIA's DRA driver, whose definition it is, cannot be had as a module",
    ),
    (
        "nvidia.com/v1beta1",
        "404 page not found",
        "Dynamo's operator, whose definition it is, cannot be had as a module",
    ),
)


async def compare(api: Api, sources: Sources, folder: Path) -> Finding:
    """Needs a cluster that has the definitions of Gateway API, the inference extension and LeaderWorkerSet."""
    await install_definitions(api, sources)
    rendered = _rendered(folder)
    namespaces = {name_of(item): item for made in rendered.values() for item in made if item["kind"] == "Namespace"}
    await api.apply_all(namespaces.values())
    gate = asyncio.Semaphore(8)

    async def one(case: str, item: Manifest) -> list[Difference]:
        async with gate:
            return await _offer(api, case, item)

    offers = [one(case, item) for case, made in rendered.items() for item in made]
    found = await asyncio.gather(*offers)
    await remove(api, namespaces.values())
    return Finding("golden objects", len(offers), tuple(each for some in found for each in some))


def _rendered(folder: Path) -> dict[str, list[Manifest]]:
    return {path.name: with_data(read_folder(path)) for path in sorted(folder.glob("*.yaml"))}


async def install_definitions(api: Api, sources: Sources) -> None:
    """Definitions of what is rendered for, without the controllers behind them."""
    found = [item for module, place in DEFINITIONS for item in sources.read(module, place)]
    # Patches of these definitions lie beside them; a definition has a group.
    definitions = [_unconverted(item) for item in found if text(item, "spec", "group")]
    await api.apply_all(definitions, at_once=2)
    for item in definitions:
        versions = [f"{text(item, 'spec', 'group')}/{version['name']}" for version in items(item, "spec", "versions")]
        await until(f"{name_of(item)} served", lambda item=item, at=versions[-1]: _is_served(api, at, item))  # type: ignore[misc]  # bound early on purpose


async def _is_served(api: Api, api_version: str, definition: Manifest) -> bool:
    resources = items(await api.call("GET", f"/apis/{api_version}"), "resources")
    return any(text(each, "kind") == text(definition, "spec", "names", "kind") for each in resources)


def _unconverted(definition: Manifest) -> Manifest:
    """No webhook of theirs runs here; versions are stored as they are sent."""
    spec = definition.get("spec")
    return {**definition, "spec": {**(spec if isinstance(spec, dict) else {}), "conversion": {"strategy": "None"}}}


async def _offer(api: Api, case: str, item: Manifest) -> list[Difference]:
    subject = f"{case} {item['kind']} {name_of(item)}"
    query = {"fieldManager": _MANAGER, "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
    try:
        kind = await api.kind(str(item["apiVersion"]), str(item["kind"]))
        path = kind.path(namespace_of(item), name_of(item))
        answer = await api.call("PATCH", path, body=item, query=query, content=APPLY)
    except ApiError as refused:
        return [Difference(subject, f"refused: {refused}", _known(item, refused.message))]
    return [Difference(subject, text) for text in changed(item, answer)]


def _known(item: Manifest, message: str) -> str:
    found = (why for kind, words, why in _KNOWN if kind == item["apiVersion"] and words in message)
    return next(found, "")


def changed(sent: object, came: object, at: str = "") -> Iterator[str]:
    """Where the answer lacks something that was sent, or says something else. What it adds is the server's business.

    A quantity may be sent as a number and comes back as text.
    """
    if isinstance(sent, dict) and isinstance(came, dict):
        for key, inner in sent.items():
            yield from changed(inner, came.get(key), f"{at}.{key}")
    elif isinstance(sent, list) and isinstance(came, list) and len(sent) == len(came):
        for number, (inner, other) in enumerate(zip(sent, came, strict=True)):
            yield from changed(inner, other, f"{at}[{number}]")
    elif sent != came and str(sent) != came and not (sent in ({}, [], "", None) and came is None):
        yield f"{at or '.'} was sent as {sent!r} and came back as {came!r}"
