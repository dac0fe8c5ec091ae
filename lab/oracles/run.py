"""All comparisons, one after the other, on the workload clusters of a lab that is up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.build import binary, module_folders
from lab.components import COMPONENTS, SOURCES
from lab.manifests import Sources
from lab.oracles import clients, dra, golden, pods
from lab.oracles.finding import Difference, Finding
from modelplane.api.definitions import custom_resource_definition, definitions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lab.e2e.world import World

GOLDEN = Path("tests/compose/golden")
DRA_CASES = 250
DRA_SEED = 1
NAMES = ("golden", "dra", "sessions", "pods")


async def _attempt(name: str, compare: Callable[[], Awaitable[Finding]]) -> Finding:
    """A comparison that breaks is a difference too, and does not keep the others from being made."""
    try:
        return await compare()
    except Exception as error:  # noqa: BLE001 - it is told in the report, which fails then
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return Finding(name, 0, (Difference("the comparison itself", f"{type(error).__name__}: {error}"),))


async def run(world: World, only: frozenset[str]) -> list[Finding]:
    """Those that are named, or all. What one of them needs on a cluster it makes, and removes afterwards."""
    site = next(iter(world.sites))
    api = world.sites[site]
    sources = Sources(module_folders(SOURCES), world.places.cache)
    kubectl = next(part for part in COMPONENTS if part.name == "kubectl")
    wanted: dict[str, Callable[[], Awaitable[Finding]]] = {
        "golden": lambda: golden.compare(api, sources, GOLDEN),
        "dra": lambda: dra.compare(api, seed=DRA_SEED, cases=DRA_CASES, say=world.say),
        "sessions": lambda: clients.compare(
            api,
            world.kubeconfigs[site],
            [dict(custom_resource_definition(each)) for each in definitions().values()],
            kubectl=binary(world.places, kubectl),
            folder=world.places.state / "sessions",
            say=world.say,
        ),
        "pods": lambda: pods.compare(list(world.sites.values()), GOLDEN, world.say),
    }
    found = []
    for name, compare in wanted.items():
        if not only or name in only:
            began = time.monotonic()
            found.append(await _attempt(name, compare))
            for line in (f"{time.monotonic() - began:7.1f} s  {found[-1].lines()[0]}", *found[-1].lines()[1:]):
                world.say(line)
    return found
