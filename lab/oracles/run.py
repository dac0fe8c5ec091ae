"""All comparisons, one after the other, on the workload clusters of a lab that is up."""

from __future__ import annotations

import asyncio
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
    from collections.abc import Awaitable, Callable, Iterable

    from lab.e2e.world import World

GOLDEN = Path("tests/compose/golden")
DRA_CASES = 250
DRA_SEED = 1
NAMES = ("golden", "dra", "clients", "pods")


async def _attempt(name: str, compare: Callable[[], Awaitable[Finding]]) -> Finding:
    """A comparison that breaks is a difference too, and does not keep the others from being made."""
    try:
        return await compare()
    except Exception as error:  # noqa: BLE001 - it is told in the report, which fails then
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return Finding(name, 0, (Difference("the comparison itself", f"{type(error).__name__}: {error}"),))


async def run(world: World, only: frozenset[str]) -> list[Finding]:
    """Those that are named, or all. What one of them needs on a cluster it makes, and removes afterwards.

    Those that need one cluster each share the clusters, so that one works while another waits; pods need all of them.
    """
    first, *others = world.sites
    last = others[-1] if others else first
    wanted = _comparisons(world, first, last)
    chosen = [name for name in wanted if not only or name in only]
    lines = [["dra"], ["golden", "clients"]] if first != last else [["golden", "dra", "clients"]]
    found: dict[str, Finding] = {}

    async def one_after_another(names: Iterable[str]) -> None:
        for name in names:
            if name in chosen:
                began = time.monotonic()
                found[name] = await _attempt(name, wanted[name])
                world.say(f"{time.monotonic() - began:7.1f} s  {found[name].lines()[0]}")

    await asyncio.gather(*map(one_after_another, lines))
    await one_after_another(["pods"])
    return [found[name] for name in chosen]


def _comparisons(world: World, first: str, last: str) -> dict[str, Callable[[], Awaitable[Finding]]]:
    api = world.sites[first]
    sources = Sources(module_folders(SOURCES), world.places.cache)
    kubectl = next(part for part in COMPONENTS if part.name == "kubectl")
    return {
        "golden": lambda: golden.compare(api, sources, GOLDEN),
        "dra": lambda: dra.compare(world.sites[last], seed=DRA_SEED, cases=DRA_CASES, say=world.say),
        "clients": lambda: clients.compare(
            api,
            world.kubeconfigs[first],
            [dict(custom_resource_definition(each)) for each in definitions().values()],
            kubectl=binary(world.places, kubectl),
            folder=world.places.state / "sessions",
            say=world.say,
        ),
        "pods": lambda: pods.compare(list(world.sites.values()), GOLDEN, world.say),
    }
