"""Types docs/operations/first-token.md, from empty clusters to the answer of a model.

What is typed is what the page says, with these differences, which are all of them:

    registry.example.org/…     the lab's registry, which has no TLS
    make release               builds no images: nothing in the lab pulls one
    modelplane install         reads the metrics that canaries are judged by, as the lab's other steps need
    cluster add … --apply      with --force: gateway and drivers are played, so some signs of software are missing
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lab.e2e.desk import in_lab, type_all, type_line
from lab.e2e.steps import cordon, expect, models, remains_of_models, remove
from lab.e2e.world import OURS
from lab.install import MEASURED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.client import Manifest
    from lab.e2e.world import World

PAGE = Path("docs/operations/first-token.md")
_INSTALLED_BY = "## 3."

_REPLAYED_S = 5.0


async def install(world: World) -> str:
    """The first two parts of the page; the lab then starts what a Deployment would."""
    prepared = await asyncio.to_thread(world.tell, "prepare")
    flags = prepared["flags"]
    added = (MEASURED, *(flags if isinstance(flags, list) else ()))
    first = PAGE.read_text().partition(_INSTALLED_BY)[0]  # noqa: ASYNC240 - one small file
    typed = await asyncio.to_thread(type_all, world, list(commands(first, added)))
    await asyncio.to_thread(world.tell, "serve", mode=world.mode)
    found = await world.control.list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition")
    return f"{typed} commands as documented: packages Healthy, {len(found)} definitions Established"


async def walk(world: World) -> str:
    """The rest of the page. Leaves nothing but what was installed."""
    rest = PAGE.read_text().partition(_INSTALLED_BY)[2]  # noqa: ASYNC240 - one small file
    *before, last = commands(rest)
    try:
        typed = await asyncio.to_thread(type_all, world, before)
        answer = json.loads(await asyncio.to_thread(type_line, world, last))
    finally:
        await leave(world)
    said = answer["choices"][0]["message"]["content"]
    expect(said, f"the answer has no words: {answer}")
    return f"{typed + 1} commands as documented: {answer['model']} answers with {len(said.split())} words"


def commands(page: str, added: Sequence[str] = ()) -> Iterator[str]:
    """Each line of the page's blocks, for the lab."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            yield _in_lab(line, added)


def _in_lab(line: str, added: Sequence[str]) -> str:
    line = in_lab(line)
    if line.startswith("modelplane install"):
        return " ".join([line, *added])
    return f"{line} --force" if line.startswith("modelplane cluster add") and "--apply" in line else line


async def leave(world: World) -> None:
    """Delete what was declared."""
    await remove(world, models())

    async def empty() -> bool:
        return not await remains_of_models(world)

    await world.wait("nothing left of the model", empty)
    made: list[Manifest] = [
        *await world.control.list(OURS, "InferenceGateway"),
        *await world.control.list(OURS, "InferenceCluster"),
    ]
    await cordon(world, made)
    await remove(world, made)
    await remove(world, await world.control.list(OURS, "InferenceClass"))
    # Crossplane deletes by name what a Usage protected, two seconds after the Usage: a namesake could go with it.
    await asyncio.sleep(_REPLAYED_S)
