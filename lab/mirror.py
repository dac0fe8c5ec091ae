"""A copy of one kind of a cluster, kept by a watch: what a controller of the lab reads instead of asking each time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from lab.client import ApiError, Manifest, name_of, namespace_of

if TYPE_CHECKING:
    from lab.client import Api

_AGAIN_S = 0.5
_ABSENT_S = 5.0
_NOT_FOUND = 404


class Mirror:
    """All objects of a kind, by namespace and name. A kind that the server does not have yet has none."""

    def __init__(self, api: Api, api_version: str, kind: str, labels: str = "") -> None:
        """Sees only what carries the labels."""
        self._api = api
        self._kind = (api_version, kind)
        self._labels = labels
        self._held: dict[tuple[str, str], Manifest] = {}
        self.known = asyncio.Event()
        """Set once the server has said what there is, or that it knows no such kind."""

    @property
    def all(self) -> tuple[Manifest, ...]:
        return tuple(self._held.values())

    async def run(self, changed: asyncio.Event) -> None:
        """Sets `changed` at each change, until it is cancelled."""
        while True:
            pause_s = _AGAIN_S
            try:
                await self._follow(changed)
            except ApiError as error:
                if error.status == _NOT_FOUND:
                    self.known.set()
                    pause_s = _ABSENT_S
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
                pass  # the API server may be the one that a test has just killed
            await asyncio.sleep(pause_s)

    async def _follow(self, changed: asyncio.Event) -> None:
        async for event, found in self._api.follow(*self._kind, labels=self._labels):
            if event == "LISTED":
                self._held = {_key(item): self._whole(item) for item in found}
                self.known.set()
            for item in found:
                if event == "DELETED":
                    self._held.pop(_key(item), None)
                else:
                    self._held[_key(item)] = self._whole(item)
            changed.set()

    def _whole(self, item: Manifest) -> Manifest:
        """In a list, only the list says what its objects are."""
        return {"apiVersion": self._kind[0], "kind": self._kind[1], **item}


def _key(item: Manifest) -> tuple[str, str]:
    return namespace_of(item), name_of(item)
