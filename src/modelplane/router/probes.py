"""Active checks: whether somebody listens where endpoints are.

A connection is opened to each address every second and kept until the next. When the other side closes it, and when a
request could not reach its endpoint, all addresses are probed at once: what took one away may have taken others. So the
router mostly knows of a gateway that ended before a request is lost there. It costs a gateway next to nothing. What
answers wrongly is found by the responses (`health`).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from modelplane.router.catalog import FleetEndpoint, ServiceCatalog

INTERVAL_S: Final = 1.0
TIMEOUT_S: Final = 1.0
_LEAST_S: Final = 0.02
"""Between two rounds, however many requests fail."""
_MOST_AT_ONCE: Final = 64
_Address = tuple[str, int]


class _HeldConnection(asyncio.Protocol):
    """Says when the other side closes it."""

    def __init__(self, lost: Callable[[], object]) -> None:
        self._lost = lost
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, _why: Exception | None) -> None:
        self._lost()

    def close(self) -> None:
        """Without a word: it is not lost."""
        self._lost = lambda: None
        if self._transport is not None:
            self._transport.close()


class Prober:
    """Probes the endpoints of a catalog between `start` and `stop`."""

    def __init__(self, catalog: ServiceCatalog, clock: Callable[[], float], interval_s: float = INTERVAL_S) -> None:
        self._catalog = catalog
        self._clock = clock
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._held: dict[_Address, _HeldConnection] = {}

    def soon(self) -> None:
        """Probe now, and not at the end of the interval."""
        self._wanted.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="probe endpoints")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for address in list(self._held):
            self._hold(address, None)

    async def probe_all(self) -> None:
        """Every address once. An endpoint of several answers where one of them does."""
        by_places: dict[tuple[_Address, ...], list[FleetEndpoint]] = {}
        for endpoint in self._catalog.endpoints.values():
            places = tuple((address, endpoint.plan.port) for address in endpoint.plan.targets)
            if endpoint.plan.ready and endpoint.plan.port and places:
                by_places.setdefault(places, []).append(endpoint)
        for gone in self._held.keys() - {place for places in by_places for place in places}:
            self._hold(gone, None)
        limit = asyncio.Semaphore(_MOST_AT_ONCE)
        await asyncio.gather(*(self._probe(places, found, limit) for places, found in by_places.items()))

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.probe_all()
            await asyncio.sleep(_LEAST_S)

    async def _probe(self, places: tuple[_Address, ...], found: list[FleetEndpoint], limit: asyncio.Semaphore) -> None:
        opened = await asyncio.gather(*(self._answers(address, limit) for address in places))
        for endpoint in found:
            endpoint.health.probed(self._clock(), answers=any(opened))

    async def _answers(self, address: _Address, limit: asyncio.Semaphore) -> bool:
        async with limit:
            opened = await self._open(address)
        self._hold(address, opened)
        return opened is not None

    def _hold(self, address: _Address, opened: _HeldConnection | None) -> None:
        before = self._held.pop(address, None)
        if before is not None:
            before.close()
        if opened is not None:
            self._held[address] = opened

    async def _open(self, address: _Address) -> _HeldConnection | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                _, held = await loop.create_connection(lambda: _HeldConnection(self.soon), *address)
        except (OSError, TimeoutError):
            return None
        return held
