"""How many endpoints of a deployment there are while something goes on, counted every second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from lab.client import name_of
from lab.e2e.world import OURS

if TYPE_CHECKING:
    from lab.e2e.world import World

_EVERY_S = 1.0


class EndpointCount:
    """A context; `fewest` is the smallest count that was seen in it."""

    def __init__(self, world: World, deployment: str, most: int) -> None:
        """Counts start at `most`."""
        self._world, self._prefix = world, f"{deployment}-"
        self.fewest = most
        self._counting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._counting = asyncio.create_task(self._count())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    async def _count(self) -> None:
        while True:
            found = await self._world.control.list(OURS, "ModelEndpoint", namespace="default")
            self.fewest = min(self.fewest, sum(name_of(item).startswith(self._prefix) for item in found))
            await asyncio.sleep(_EVERY_S)
