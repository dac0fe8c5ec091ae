"""A steady load that goes on whatever becomes of its requests: who served each, and which were lost."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, Self

import aiohttp
import msgspec
from load.front import SERVED_BY, Way, front
from load.pickers import Which, picker

from modelplane.conformance.epp.controls import KitEndpoint
from modelplane.conformance.epp.kube_pool import KubePool

OK: Final = "200"
_SETTLE_S: Final = 3.0
_TIMEOUT_S: Final = 60.0


class Outcome(msgspec.Struct, frozen=True):
    """Of one request. Times are of `time.monotonic`."""

    sent_s: float
    ended_s: float
    status: str
    """200: answered whole. Otherwise another status, `cut short`, or the name of an error."""
    served_by: str
    text: str


class Chain(msgspec.Struct, frozen=True):
    """An Envoy and our picker before a pool that can be changed."""

    pool: KubePool
    url: str


@contextlib.asynccontextmanager
async def chain(folder: Path, members: tuple[KitEndpoint, ...], config: str) -> AsyncIterator[Chain]:
    """The picker finds its pods by a watch, as in a cluster."""
    at = tuple(member.address for member in members)
    pool = KubePool(at)
    pool.replace(members)
    async with (
        picker(Which.OWN, folder, pool, config) as (port, _),
        front(folder, Way.REQUESTS, at, port, names_server=True) as proxy,
    ):
        await asyncio.sleep(_SETTLE_S)
        yield Chain(pool, f"http://127.0.0.1:{proxy.port}")


class SteadyLoad:
    """So many requests a second, from `async with` to its end."""

    def __init__(self, url: str, bodies: Iterator[bytes], rate: float) -> None:
        self._url, self._bodies, self._rate = url, bodies, rate
        self._stopped = asyncio.Event()
        self.outcomes: list[Outcome] = []

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped.set()
        await self._running

    async def _run(self) -> None:
        limit = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(timeout=limit, connector=connector) as session,
            asyncio.TaskGroup() as tasks,
        ):
            began, number = time.monotonic(), 0
            while not self._stopped.is_set():
                tasks.create_task(self._one(session, next(self._bodies)))
                number += 1
                await asyncio.sleep(max(began + number / self._rate - time.monotonic(), 0))

    async def _one(self, session: aiohttp.ClientSession, body: bytes) -> None:
        self.outcomes.append(await send(session, self._url, body))


async def send(session: aiohttp.ClientSession, url: str, body: bytes) -> Outcome:
    """One streamed request."""
    began, served, text = time.monotonic(), "", ""
    try:
        kind = {"content-type": "application/json"}
        async with session.post(f"{url}/v1/chat/completions", data=body, headers=kind) as answer:
            served, text = answer.headers.get(SERVED_BY, ""), await answer.text()
            status = str(answer.status)
            if status == OK and "data: [DONE]" not in text:
                status = "cut short"
    except (aiohttp.ClientError, TimeoutError) as error:
        status = type(error).__name__
    return Outcome(began, time.monotonic(), status, served, text)


def words(outcome: Outcome) -> str:
    """What a stream said."""
    events = [line.removeprefix("data: ") for line in outcome.text.splitlines() if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in json.loads(event)["choices"])
